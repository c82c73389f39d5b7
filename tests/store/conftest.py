"""The contract of all stores asserts as a test does."""

import pytest

pytest.register_assert_rewrite("tests.store.contract")
