"""Lanes."""

import threading

from headgate.run.lanes import Lanes

WAIT_S = 5.0


def failing(errors: list[BaseException]) -> Lanes:
    return Lanes(errors.append)


def test_what_is_on_one_lane_is_done_in_order() -> None:
    errors: list[BaseException] = []
    lanes = failing(errors)
    done: list[int] = []
    for number in range(200):
        lanes.put("one", done.append, number)
    lanes.close(WAIT_S)
    assert done == list(range(200))
    assert errors == []


def test_one_lane_does_not_wait_for_another() -> None:
    lanes = failing([])
    held, free = threading.Event(), threading.Event()
    lanes.put("slow", held.wait, WAIT_S)
    lanes.put("quick", free.set)
    assert free.wait(WAIT_S)
    assert not held.is_set()
    held.set()
    lanes.close(WAIT_S)


def test_work_that_raises_is_told_of_and_the_lane_goes_on() -> None:
    errors: list[BaseException] = []
    lanes = failing(errors)
    done = threading.Event()
    lanes.put("one", [].index, 5)
    lanes.put("one", done.set)
    assert done.wait(WAIT_S)
    lanes.close(WAIT_S)
    assert [type(error) for error in errors] == [ValueError]


def test_a_close_finishes_what_was_put_there_and_leaves_no_thread() -> None:
    lanes = failing([])
    done: list[int] = []
    for number in range(50):
        lanes.put(f"lane-{number % 5}", done.append, number)
    lanes.close(WAIT_S)
    assert sorted(done) == list(range(50))
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("headgate-lane-")]


def test_a_close_does_not_wait_for_ever() -> None:
    lanes = failing([])
    held = threading.Event()
    lanes.put("stuck", held.wait, WAIT_S)
    lanes.close(0.05)
    assert not held.is_set()
    held.set()


def test_a_lane_serves_from_any_thread() -> None:
    lanes = failing([])
    done: list[int] = []
    threads = [threading.Thread(target=lanes.put, args=("one", done.append, number)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lanes.close(WAIT_S)
    assert sorted(done) == list(range(20))


def test_what_waits_on_a_lane_already_is_not_put_there_again() -> None:
    lanes = failing([])
    hold, done = threading.Event(), threading.Event()
    seen: list[str] = []
    lanes.put("garbage", hold.wait)
    for _ in range(5):
        lanes.put_once("garbage", seen.append, "list")
    lanes.put_once("garbage", seen.append, "another")
    lanes.put("garbage", done.set)
    hold.set()
    assert done.wait(WAIT_S)
    assert seen == ["list", "another"]
    lanes.put_once("garbage", seen.append, "list")
    lanes.close(WAIT_S)
    assert seen == ["list", "another", "list"], "it was begun, so it may be asked for again"
