"""Out to a search index: Elasticsearch or OpenSearch.

One rule: a document's id comes from its row, so that a row that is written again replaces itself.
"""

from headgate.connect.search.sink import SearchSink, sink

__all__ = ["SearchSink", "sink"]
