"""Every run draws the same examples, so that a red run is red again, here and in CI."""

import pytest
from hypothesis import settings

pytest.register_assert_rewrite("tests.store.contract")

settings.register_profile("headgate", derandomize=True, deadline=None, database=None, max_examples=150)
settings.load_profile("headgate")
