"""Stacks are counted by how their threads were, and folded into a tree in which nothing is lost."""

from typing import Any

from hypothesis import given, strategies as st

from headgate.profile.stacks import CUT, DEPTH_MAX, REST, FlameGraphType, Stacks, shortened, tree

FULL, ON, OFF = FlameGraphType.FULL, FlameGraphType.ON_CPU, FlameGraphType.OFF_CPU


def test_a_tree_has_a_node_for_each_way_to_a_frame() -> None:
    assert tree({("main", "read"): 2, ("main", "write", "flush"): 5, ("idle",): 1, ("main",): 3}) == {
        "name": "root",
        "value": 11,
        "children": [
            {
                "name": "main",
                "value": 10,
                "children": [
                    {
                        "name": "write",
                        "value": 5,
                        "children": [{"name": "flush", "value": 5, "children": []}],
                    },
                    {"name": "read", "value": 2, "children": []},
                ],
            },
            {"name": "idle", "value": 1, "children": []},
        ],
    }
    assert tree({}) == {"name": "root", "value": 0, "children": []}


def test_a_stack_counts_where_its_thread_ran_or_waited_and_always_in_the_full_graph() -> None:
    seen, more = Stacks(), Stacks()
    seen.add(["a", "b"], running=True)
    seen.add(["a", "b"], running=False, times=3)
    more.add(["a", "b"], running=True, times=2)
    more.add(["c"], running=False)
    seen.take(more)
    assert seen.counted(FULL) == {("a", "b"): 6, ("c",): 1}
    assert seen.counted(ON) == {("a", "b"): 3}
    assert seen.counted(OFF) == {("a", "b"): 3, ("c",): 1}


def test_what_is_too_small_to_be_drawn_is_drawn_together() -> None:
    found = tree({("big",): 10_000, **{(f"small {number}",): 1 for number in range(30)}})
    assert found["children"] == [
        {"name": "big", "value": 10_000, "children": []},
        {"name": REST, "value": 30, "children": []},
    ]


def test_a_deep_stack_keeps_its_beginning_and_its_end() -> None:
    whole = tuple(str(number) for number in range(1000))
    kept = shortened(whole)
    assert len(kept) == DEPTH_MAX
    assert (kept[0], kept[-1]) == ("0", "999")
    assert kept.count(CUT) == 1
    assert shortened(whole[:DEPTH_MAX]) == whole[:DEPTH_MAX]


@given(st.dictionaries(st.lists(st.sampled_from("abc"), min_size=1, max_size=5).map(tuple), st.integers(1, 9)))
def test_a_node_is_as_wide_as_its_children_and_what_ended_in_it(counts: dict[tuple[str, ...], int]) -> None:
    def ends(node: dict[str, Any], way: tuple[str, ...]) -> None:
        inside = sum(child["value"] for child in node["children"])
        assert node["value"] == inside + counts.get(way, 0)
        assert [child["value"] for child in node["children"]] == sorted(
            (child["value"] for child in node["children"]), reverse=True
        )
        for child in node["children"]:
            ends(child, (*way, child["name"]))

    found = tree(counts)
    assert found["value"] == sum(counts.values())
    ends(found, ())
