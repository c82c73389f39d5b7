"""Why a bar was missed, as far as a profile shows it. Keys are a case and a bar of it, or a case for all its bars."""

from collections.abc import Mapping

WHY: Mapping[tuple[str, str], str] = {}
