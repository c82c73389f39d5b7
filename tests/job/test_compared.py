"""docs/compared.md shows the examples as they are."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = {
    "Orders, summed up for each user and every ten minutes": "exactly_once_etl",
    "Sensors that jump or fall silent": "fault_tolerant_sensors",
    "Payments and balances": "exercise_kafka_to_kafka",
}


def sections() -> dict[str, str]:
    """What stands under each heading of the second level."""
    parts = re.split(r"^## (.*)\n", (ROOT / "docs" / "compared.md").read_text(), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_every_example_is_compared() -> None:
    jobs = {path.parent.name for path in (ROOT / "examples").glob("*/job.py")}
    assert jobs == set(EXAMPLES.values())
    assert list(sections()) == list(EXAMPLES)


@pytest.mark.parametrize("heading", EXAMPLES)
def test_headgates_code_is_that_of_the_example(heading: str) -> None:
    ours = sections()[heading].split("### Flink, Java")[0]
    blocks = re.findall(r"```python\n(.*?)\n```", ours, flags=re.DOTALL)
    example = (ROOT / "examples" / EXAMPLES[heading] / "job.py").read_text()
    assert len(blocks) == 2
    assert all(block in example for block in blocks)
