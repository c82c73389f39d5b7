"""What Spark keeps in a query's checkpoint directory: which files rebuild a batch, and how old each one is."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from headgate import layout
from headgate.core.ids import NO_BATCH, Batch, ChannelId
from headgate.errors import BadStorage
from tests.edges.spark_files import (
    changelog,
    commit,
    metadata,
    offsets,
    position,
    put,
    rocksdb,
    run_batches,
    snapshot,
    uid,
)

A, B = ChannelId("a.0"), ChannelId("b.1")


def files_of(query: Path, batch: int) -> list[str]:
    found = layout.files_of(query, Batch(batch))
    assert len(found) == len(set(found)), "a file is named twice"
    assert all((query / name).is_file() for name in found), "a file is named that is not there"
    return sorted(found)


# -- the two logs ----------------------------------------------------------------------------------------------------


def test_a_directory_that_is_not_there_has_nothing_committed_and_nothing_planned(tmp_path: Path) -> None:
    assert layout.committed(tmp_path / "none") == NO_BATCH
    assert layout.planned(tmp_path / "none") == NO_BATCH
    assert layout.files_of(tmp_path, NO_BATCH) == []


def test_the_last_batch_is_found_by_its_number_and_other_names_do_not_count(tmp_path: Path) -> None:
    run_batches(tmp_path, 11)
    offsets(tmp_path, 12, "-")
    put(tmp_path / "commits" / ".13.crc")
    put(tmp_path / "commits" / f".14.{uid(1)}.tmp")
    assert layout.committed(tmp_path) == 11
    assert layout.planned(tmp_path) == 12
    assert layout.is_committed(tmp_path, Batch(11))
    assert not layout.is_committed(tmp_path, Batch(12))


def test_positions_are_told_from_the_offsets_of_sources(tmp_path: Path) -> None:
    kafka = '{"channel":{"0":23},"batch":{"0":4}, "orders":{"1":7}}'
    offsets(tmp_path, 3, position("a.0", 7), kafka, "-", position("b.1", -1))
    found = layout.read_offsets(tmp_path, Batch(3))
    assert found.positions() == {A: 7, B: -1}
    assert found.of_sources() == [kafka, "-"]


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("v1", "not an entry of Spark's offset log"),
        ("", "not an entry of Spark's offset log"),
        ("v1\nnot json\n-", "not an entry of Spark's offset log"),
        ('v1\n{}\n{"channel": ', "not an entry of Spark's offset log"),
        ('v2\n{}\n0:{"offset":3}', "has format 'v2', known is 'v1'"),
    ],
)
def test_an_entry_that_is_no_entry_of_the_offset_log_is_named(tmp_path: Path, text: str, match: str) -> None:
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "5").write_text(text, encoding="utf-8")
    with pytest.raises(BadStorage, match=match) as caught:
        layout.read_offsets(tmp_path, Batch(5))
    assert "offsets/5" in str(caught.value)


def test_an_entry_that_is_gone_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadStorage, match=r"offsets/9 is gone"):
        layout.read_offsets(tmp_path, Batch(9))


# -- the files of a checkpoint: RocksDB --------------------------------------------------------------------------------


def test_a_query_without_state_is_its_logs(tmp_path: Path) -> None:
    run_batches(tmp_path, 5)
    assert files_of(tmp_path, 3) == ["commits/3", "metadata", "offsets/2", "offsets/3"]
    assert files_of(tmp_path, 0) == ["commits/0", "metadata", "offsets/0"]


def test_what_a_source_keeps_for_itself_goes_along(tmp_path: Path) -> None:
    run_batches(tmp_path, 1)
    put(tmp_path / "sources/0/0")
    put(tmp_path / "sources/0/9.compact")
    put(tmp_path / "sources/0/.0.crc")
    assert [name for name in files_of(tmp_path, 1) if "sources" in name] == ["sources/0/0", "sources/0/9.compact"]


def test_the_newest_snapshot_comes_with_its_tables_and_the_changes_after_it(tmp_path: Path) -> None:
    rocksdb(tmp_path, 9, snapshots=(4, 8))
    assert files_of(tmp_path, 8) == [
        "commits/7",
        "commits/8",
        "metadata",
        "offsets/7",
        "offsets/8",
        f"state/0/0/8_{uid(800)}.zip",
        f"state/0/0/9_{uid(900)}.changelog",
        f"state/0/0/SSTs/000004-{uid(0)}.sst",
        f"state/0/0/SSTs/000008-{uid(0)}.sst",
        "state/0/0/_metadata/schema",
        "state/0/_metadata/metadata",
    ]


def test_a_snapshot_that_is_newer_than_the_batch_does_not_count(tmp_path: Path) -> None:
    rocksdb(tmp_path, 9, snapshots=(4, 8))
    found = files_of(tmp_path, 5)
    assert f"state/0/0/4_{uid(400)}.zip" in found
    assert [name for name in found if "changelog" in name] == [
        f"state/0/0/{version}_{uid(100 * version)}.changelog" for version in (5, 6)
    ]
    assert f"state/0/0/SSTs/000008-{uid(0)}.sst" not in found


def test_without_a_snapshot_all_changes_are_needed(tmp_path: Path) -> None:
    rocksdb(tmp_path, 3, partitions=2)
    assert [name for name in files_of(tmp_path, 2) if "changelog" in name] == [
        f"state/0/{partition}/{version}_{uid(100 * version + partition)}.changelog"
        for partition in (0, 1)
        for version in (1, 2, 3)
    ]


def test_a_snapshot_of_the_very_version_is_enough(tmp_path: Path) -> None:
    rocksdb(tmp_path, 3, snapshots=(4,))
    assert not [name for name in files_of(tmp_path, 3) if "changelog" in name]


def test_what_a_dead_run_left_under_another_id_does_not_count(tmp_path: Path) -> None:
    rocksdb(tmp_path, 4, snapshots=(2,))
    store = tmp_path / "state/0/0"
    stale = [
        changelog(store, 4, uid(7)),
        changelog(store, 5, uid(8)),
        snapshot(store, 4, uid(7), ["000099-stale.sst"]),
    ]
    found = files_of(tmp_path, 4)
    assert not [name for name in found if Path(name).name in stale or "000099" in name]
    assert f"state/0/0/2_{uid(200)}.zip" in found


def test_versions_whose_commit_entries_are_deleted_are_taken_as_they_are(tmp_path: Path) -> None:
    rocksdb(tmp_path, 6, snapshots=(3,))
    before = files_of(tmp_path, 6)
    gone = [f"commits/{batch}" for batch in range(6)]
    for name in gone:
        (tmp_path / name).unlink()
    assert files_of(tmp_path, 6) == [name for name in before if name not in gone]


def collect(query: Path, *named: str) -> None:
    """What garbage collection leaves of a directory: what a checkpoint names, and what is newer than its cut."""
    cut = max(int(Path(name).name) for name in named if name.startswith("commits/"))
    for name, batch in layout.ages(query).items():
        if name not in named and batch is not None and batch <= cut:
            (query / name).unlink()


def test_a_dead_attempts_late_changelog_is_told_apart_after_garbage_collection(tmp_path: Path) -> None:
    rocksdb(tmp_path, 6, snapshots=(3,))
    collect(tmp_path, *files_of(tmp_path, 5))
    store = tmp_path / "state/0/0"
    stale = [changelog(store, 6, uid(7_000)), snapshot(store, 5, uid(8_000), ["000099-stale.sst"])]
    found = files_of(tmp_path, 6)
    assert not [name for name in found if Path(name).name in stale or "000099" in name]
    assert [name for name in found if name.endswith(".changelog")] == [
        f"state/0/0/{version}_{uid(100 * version)}.changelog" for version in (4, 5, 6, 7)
    ]


def test_the_commit_entries_of_all_versions_since_the_oldest_snapshot_go_along(tmp_path: Path) -> None:
    rocksdb(tmp_path, 9, snapshots=(4,), partitions=2)
    snapshot(tmp_path / "state/0/1", 8, uid(801), ["000001-x.sst"])
    commits = [name for name in files_of(tmp_path, 9) if name.startswith("commits/")]
    assert commits == [f"commits/{batch}" for batch in (3, 4, 5, 6, 7, 8, 9)]


def test_two_ids_of_a_version_without_its_commit_entry_are_refused_not_guessed_at(tmp_path: Path) -> None:
    rocksdb(tmp_path, 6, snapshots=(3,))
    changelog(tmp_path / "state/0/0", 5, uid(7))
    (tmp_path / "commits/4").unlink()
    with pytest.raises(BadStorage, match=r"state/0/0 has 2 states of version 5, and commits/4 is gone") as caught:
        layout.files_of(tmp_path, Batch(6))
    assert "\n" not in str(caught.value)


def test_a_job_that_begins_anew_in_the_same_place_is_not_taken_for_the_old_one(tmp_path: Path) -> None:
    rocksdb(tmp_path, 2)
    assert len(files_of(tmp_path, 2)) > 6
    for version in (1, 2, 3):
        (tmp_path / "state/0/0" / f"{version}_{uid(100 * version)}.changelog").unlink()
        changelog(tmp_path / "state/0/0", version, uid(version))
        commit(tmp_path, version - 1, {"0": [[uid(version)]]})
    assert [name for name in files_of(tmp_path, 2) if "changelog" in name] == [
        f"state/0/0/{version}_{uid(version)}.changelog" for version in (1, 2, 3)
    ]


def test_a_version_that_is_missing_is_named_and_nothing_is_left_out_silently(tmp_path: Path) -> None:
    rocksdb(tmp_path, 5, snapshots=(2,))
    (tmp_path / "state/0/0" / f"4_{uid(400)}.changelog").unlink()
    with pytest.raises(BadStorage, match=r"state/0/0 has no version 4 of the state"):
        layout.files_of(tmp_path, Batch(5))


def test_log_files_that_a_snapshot_lists_go_along(tmp_path: Path) -> None:
    metadata(tmp_path)
    offsets(tmp_path, 0, "-")
    commit(tmp_path, 0, {"0": [[uid(1)]]})
    snapshot(tmp_path / "state/0/0", 1, uid(1), ["000008-a.sst"], ["000009-a.log"])
    put(tmp_path / "state/0/0/logs/000007-older.log")
    assert [name for name in files_of(tmp_path, 0) if "/logs/" in name] == ["state/0/0/logs/000009-a.log"]


def test_a_snapshot_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    rocksdb(tmp_path, 2)
    (tmp_path / f"state/0/0/3_{uid(300)}.zip").write_bytes(b"PK and then nothing")
    with pytest.raises(BadStorage, match=rf"3_{uid(300)}\.zip is not a RocksDB snapshot"):
        layout.files_of(tmp_path, Batch(2))


@pytest.mark.parametrize("text", ["", "v2", "v2\nno json", "v2\n[]", 'v2\n{"stateUniqueIds": 5}'])
def test_a_commit_entry_that_cannot_be_read_is_named(tmp_path: Path, text: str) -> None:
    rocksdb(tmp_path, 2)
    (tmp_path / "commits" / "2").write_text(text, encoding="utf-8")
    with pytest.raises(BadStorage, match=r"commits/2 is not an entry of Spark's commit log"):
        layout.files_of(tmp_path, Batch(2))


def test_each_store_of_a_join_is_judged_for_itself(tmp_path: Path) -> None:
    stores = ("left-keyToNumValues", "left-keyWithIndexToValue", "right-keyToNumValues", "right-keyWithIndexToValue")
    metadata(tmp_path)
    for batch in range(3):
        offsets(tmp_path, batch, "-", "-")
        ids = [uid(10 * (batch + 1) + place) for place in range(4)]
        commit(tmp_path, batch, {"0": [ids]})
        for store, unique in zip(stores, ids, strict=True):
            changelog(tmp_path / "state/0/0" / store, batch + 1, unique)
    snapshot(tmp_path / "state/0/0" / stores[2], 2, uid(22), ["000001-x.sst"])
    state = [name.removeprefix("state/0/0/") for name in files_of(tmp_path, 2) if name.startswith("state")]
    assert state == [
        *(f"left-keyToNumValues/{v}_{uid(10 * v)}.changelog" for v in (1, 2, 3)),
        *(f"left-keyWithIndexToValue/{v}_{uid(10 * v + 1)}.changelog" for v in (1, 2, 3)),
        f"right-keyToNumValues/2_{uid(22)}.zip",
        f"right-keyToNumValues/3_{uid(32)}.changelog",
        "right-keyToNumValues/SSTs/000001-x.sst",
        *(f"right-keyWithIndexToValue/{v}_{uid(10 * v + 3)}.changelog" for v in (1, 2, 3)),
    ]


# -- the files of a checkpoint: hash map, keyed state ----------------------------------------------------------------


def hashmap(query: Path, last: int) -> None:
    metadata(query)
    for batch in range(last + 1):
        offsets(query, batch, "-")
        commit(query, batch)
        for partition in (0, 1):
            put(query / f"state/0/{partition}/{batch + 1}.delta")


def test_the_partitions_of_a_hash_map_have_snapshots_of_their_own_versions(tmp_path: Path) -> None:
    hashmap(tmp_path, 7)
    put(tmp_path / "state/0/0/5.snapshot")
    put(tmp_path / "state/0/1/3.snapshot")
    put(tmp_path / "state/0/1/8.snapshot")
    assert [name for name in files_of(tmp_path, 6) if name.startswith("state")] == [
        "state/0/0/5.snapshot",
        "state/0/0/6.delta",
        "state/0/0/7.delta",
        "state/0/1/3.snapshot",
        "state/0/1/4.delta",
        "state/0/1/5.delta",
        "state/0/1/6.delta",
        "state/0/1/7.delta",
    ]


def schema_path(query: Path, name: str) -> str:
    return f"file:{query}/state/0/_stateSchema/default/{name}"


def keyed(query: Path, *restarts: int) -> None:
    """What describes keyed state: one file for each restart, with the absolute path of the schema."""
    for batch in restarts:
        about = {"stateStoreInfo": [{"storeName": "default", "stateSchemaFilePaths": [schema_path(query, "0_x")]}]}
        put(query / f"state/0/_metadata/v2/{batch}", "v2\n" + json.dumps(about))
    put(query / "state/0/_stateSchema/default/0_x")


def test_of_what_describes_keyed_state_only_the_newest_is_named_since_spark_deletes_the_others(tmp_path: Path) -> None:
    rocksdb(tmp_path, 20, snapshots=(1,))
    keyed(tmp_path, 0, 16, 19)
    found = files_of(tmp_path, 18)
    assert [name for name in found if "v2" in name] == ["state/0/_metadata/v2/16"]
    assert "state/0/_stateSchema/default/0_x" in found


@pytest.mark.parametrize("place", ["new", "with a space", "ünd%20so"])
def test_what_describes_keyed_state_is_made_to_point_into_its_own_directory(tmp_path: Path, place: str) -> None:
    old, new = tmp_path / "old", tmp_path / place
    keyed(old, 0)
    text = (old / "state/0/_metadata/v2/0").read_text(encoding="utf-8")
    (new / "state/0/_metadata/v2").mkdir(parents=True)
    (new / "state/0/_metadata/v2/0").hardlink_to(old / "state/0/_metadata/v2/0")
    assert layout.relocate(new) == ["state/0/_metadata/v2/0"]
    moved = json.loads((new / "state/0/_metadata/v2/0").read_text(encoding="utf-8").removeprefix("v2\n"))
    assert moved["stateStoreInfo"][0]["stateSchemaFilePaths"] == [schema_path(new, "0_x")]
    assert (old / "state/0/_metadata/v2/0").read_text(encoding="utf-8") == text, "what was linked has changed"
    assert layout.relocate(new) == []


# -- what Headgate writes ----------------------------------------------------------------------------------------------


def test_positions_are_moved_and_all_else_stays(tmp_path: Path) -> None:
    offsets(tmp_path, 4, '{"offset":9}', position("a.0", 7), position("b.1", 5), watermark_ms=33)
    put(tmp_path / "offsets/.4.crc")
    before = layout.read_offsets(tmp_path, Batch(4))
    assert layout.move_positions(tmp_path, Batch(4), {A: Batch(2), B: Batch(5)}, {}) == ["offsets/4"]
    after = layout.read_offsets(tmp_path, Batch(4))
    assert after.positions() == {A: 2, B: 5}
    assert (after.of_sources(), after.metadata) == (before.of_sources(), before.metadata)
    assert not (tmp_path / "offsets/.4.crc").exists(), "Hadoop would compare it with what was there before"
    assert [path.name for path in (tmp_path / "offsets").iterdir()] == ["4"]


def test_positions_that_stand_where_they_should_are_not_written(tmp_path: Path) -> None:
    offsets(tmp_path, 4, position("a.0", 7))
    inode = (tmp_path / "offsets/4").stat().st_ino
    assert layout.move_positions(tmp_path, Batch(4), {A: Batch(7)}, {}) == []
    assert (tmp_path / "offsets/4").stat().st_ino == inode


def test_a_channel_that_has_another_name_now_is_found_by_the_old_one(tmp_path: Path) -> None:
    offsets(tmp_path, 4, position("old.0", 7), position("b.1", 5))
    layout.move_positions(tmp_path, Batch(4), {A: Batch(7), B: Batch(3)}, {ChannelId("old.0"): A})
    assert layout.read_offsets(tmp_path, Batch(4)).positions() == {A: 7, B: 3}


@pytest.mark.parametrize("wanted", [{}, {B: Batch(1)}, {A: Batch(7), B: Batch(1)}])
def test_channels_that_the_offsets_do_not_name_are_refused(tmp_path: Path, wanted: dict[ChannelId, Batch]) -> None:
    offsets(tmp_path, 4, position("a.0", 7))
    with pytest.raises(BadStorage, match=r"name the channels a\.0, but the task now reads"):
        layout.move_positions(tmp_path, Batch(4), wanted, {})


def test_the_last_batch_has_the_input_of_the_one_before_it_and_the_end_of_time(tmp_path: Path) -> None:
    run_batches(tmp_path, 3, '{"offset":44}')
    layout.plan_last_batch(tmp_path)
    last = layout.read_offsets(tmp_path, Batch(4))
    assert last.sources == ('{"offset":44}',)
    assert last.metadata["batchWatermarkMs"] == layout.FINAL_WATERMARK_MS
    assert last.metadata["conf"] == {"spark.sql.shuffle.partitions": "2"}
    assert layout.read_offsets(tmp_path, Batch(3)).metadata["batchWatermarkMs"] == 0


def test_a_batch_that_was_under_way_becomes_the_last_one(tmp_path: Path) -> None:
    run_batches(tmp_path, 3)
    offsets(tmp_path, 4, '{"offset":55}')
    for _ in range(2):
        layout.plan_last_batch(tmp_path)
        assert layout.planned(tmp_path) == 4
        last = layout.read_offsets(tmp_path, Batch(4))
        assert last.sources == ('{"offset":55}',)
        assert last.metadata["batchWatermarkMs"] == layout.FINAL_WATERMARK_MS


def test_a_query_that_never_had_a_batch_gets_no_last_one(tmp_path: Path) -> None:
    layout.plan_last_batch(tmp_path)
    assert layout.planned(tmp_path) == NO_BATCH


# -- ages --------------------------------------------------------------------------------------------------------------


def test_every_file_has_the_age_of_the_last_batch_that_needs_it(tmp_path: Path) -> None:
    rocksdb(tmp_path, 9, snapshots=(4, 8))
    ages = layout.ages(tmp_path)
    assert ages["offsets/3"] == ages["commits/3"] == 3
    assert ages[f"state/0/0/5_{uid(500)}.changelog"] == 4
    assert ages[f"state/0/0/4_{uid(400)}.zip"] == 3
    assert ages[f"state/0/0/SSTs/000004-{uid(0)}.sst"] == 7, "the later snapshot needs it too"
    assert ages["metadata"] is None
    assert ages["state/0/_metadata/metadata"] is None
    assert len(ages) == sum(path.is_file() for path in tmp_path.rglob("*"))


def test_a_table_that_no_snapshot_lists_yet_may_be_about_to_be_listed(tmp_path: Path) -> None:
    rocksdb(tmp_path, 3, snapshots=(4,))
    put(tmp_path / "state/0/0/SSTs/000050-new.sst")
    assert layout.ages(tmp_path)["state/0/0/SSTs/000050-new.sst"] is None


def test_the_tables_of_the_very_first_batch_are_not_older_than_it(tmp_path: Path) -> None:
    snapshot(tmp_path / "state/0/0", 1, uid(1), ["000001-first.sst"])
    assert layout.ages(tmp_path)["state/0/0/SSTs/000001-first.sst"] == 0


@pytest.mark.parametrize("spoil", [lambda path: path.write_bytes(b""), lambda path: path.write_bytes(b"PK\3\4half")])
def test_a_snapshot_that_is_being_written_makes_nothing_old(tmp_path: Path, spoil: Callable[[Path], None]) -> None:
    rocksdb(tmp_path, 0, snapshots=())
    path = put(tmp_path / f"state/0/0/1_{uid(100)}.zip")
    spoil(path)
    put(tmp_path / "state/0/0/SSTs/000001-x.sst")
    assert layout.ages(tmp_path)["state/0/0/SSTs/000001-x.sst"] is None


def test_a_checksum_beside_a_file_is_as_old_as_the_file(tmp_path: Path) -> None:
    put(tmp_path / "offsets/.5.crc")
    put(tmp_path / f"state/0/0/7_{uid(7)}.changelog.crc")
    put(tmp_path / "state/0/0/.7.delta.crc")
    put(tmp_path / "state/0/0/_metadata/.schema.crc")
    assert layout.ages(tmp_path) == {
        "offsets/.5.crc": 5,
        f"state/0/0/7_{uid(7)}.changelog.crc": 6,
        "state/0/0/.7.delta.crc": 6,
        "state/0/0/_metadata/.schema.crc": None,
    }


def test_what_a_snapshot_lists_is_read_once_and_forgotten_with_the_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    tables_of = layout.tables_of

    def noted(path: Path) -> tuple[str, ...]:
        read.append(path.name)
        return tables_of(path)

    monkeypatch.setattr(layout, "tables_of", noted)
    monkeypatch.setattr(layout, "TABLES", layout.Tables())
    rocksdb(tmp_path, 9, snapshots=(4, 8), partitions=3)
    for _ in range(3):
        groups = layout.groups_of(tmp_path, Batch(8), "x/")
        again = layout.groups_of(tmp_path, Batch(8), "x/")
        assert [one is other for one, other in zip(groups, again, strict=True)] == [False, True, True, True]
        layout.ages(tmp_path, "x/")
    assert len(read) == len(set(read)) == 6, "three partitions with two snapshots each"
    for path in tmp_path.glob("state/0/0/4_*.zip"):
        path.unlink()
    layout.ages(tmp_path, "x/")
    snapshot(tmp_path / "state/0/0", 4, uid(400), [])
    assert layout.ages(tmp_path, "x/")[f"x/state/0/0/SSTs/000004-{uid(0)}.sst"] == 7
    assert len(read) == 7, "it is another one"
    shutil.rmtree(tmp_path / "state")
    layout.TABLES.prune()
    assert layout.TABLES._known == {}


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("tasks/t/g1/state/0/7/12_x.changelog", (0, 7)),
        ("tasks/t/g1/state/2/0/left-keyToNumValues/SSTs/9.sst", (2, 0)),
        ("tasks/state/g1/state/1/3/4_x.zip", (1, 3)),
        ("state/1/3/4_x.zip", None),
        ("tasks/t/g1/state/0/_metadata/metadata", None),
        ("tasks/t/g1/state/0/7", None),
        ("tasks/t/g1/offsets/7", None),
        ("tasks/t/g1/metadata", None),
    ],
)
def test_a_file_of_state_says_of_which_operator_and_partition_it_is(name: str, place: tuple[int, int] | None) -> None:
    assert layout.state_place(name) == place
