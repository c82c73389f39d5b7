"""SerialExecutors."""

import threading

from headgate.about import known
from headgate.run.perform import _telling
from headgate.run.serial import SerialExecutors

WAIT_S = 5.0


def failing(errors: list[BaseException]) -> SerialExecutors:
    return SerialExecutors(errors.append)


def test_what_is_on_one_serial_executor_is_done_in_order() -> None:
    errors: list[BaseException] = []
    serial_executors = failing(errors)
    done: list[int] = []
    for number in range(200):
        serial_executors.put("one", done.append, number)
    serial_executors.close(WAIT_S)
    assert done == list(range(200))
    assert errors == []


def test_one_serial_executor_does_not_wait_for_another() -> None:
    serial_executors = failing([])
    held, free = threading.Event(), threading.Event()
    serial_executors.put("slow", held.wait, WAIT_S)
    serial_executors.put("quick", free.set)
    assert free.wait(WAIT_S)
    assert not held.is_set()
    held.set()
    serial_executors.close(WAIT_S)


def test_work_that_raises_is_told_of_and_the_serial_executor_goes_on() -> None:
    errors: list[BaseException] = []
    serial_executors = failing(errors)
    done = threading.Event()
    serial_executors.put("one", [].index, 5)
    serial_executors.put("one", done.set)
    assert done.wait(WAIT_S)
    serial_executors.close(WAIT_S)
    assert [type(error) for error in errors] == [ValueError]


def test_a_close_finishes_what_was_put_there_and_leaves_no_thread() -> None:
    serial_executors = failing([])
    done: list[int] = []
    for number in range(50):
        serial_executors.put(f"executor-{number % 5}", done.append, number)
    serial_executors.close(WAIT_S)
    assert sorted(done) == list(range(50))
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("headgate-executor-")]


def test_a_close_does_not_wait_for_ever() -> None:
    serial_executors = failing([])
    held = threading.Event()
    serial_executors.put("stuck", held.wait, WAIT_S)
    serial_executors.close(0.05)
    assert not held.is_set()
    held.set()


def test_a_serial_executor_serves_from_any_thread() -> None:
    serial_executors = failing([])
    done: list[int] = []
    threads = [threading.Thread(target=serial_executors.put, args=("one", done.append, number)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    serial_executors.close(WAIT_S)
    assert sorted(done) == list(range(20))


def test_what_waits_on_a_serial_executor_already_is_not_put_there_again() -> None:
    serial_executors = failing([])
    hold, done = threading.Event(), threading.Event()
    seen: list[str] = []
    serial_executors.put("garbage", hold.wait)
    for _ in range(5):
        serial_executors.put_once("garbage", seen.append, "list")
    serial_executors.put_once("garbage", seen.append, "another")
    serial_executors.put("garbage", done.set)
    hold.set()
    assert done.wait(WAIT_S)
    assert seen == ["list", "another"]
    serial_executors.put_once("garbage", seen.append, "list")
    serial_executors.close(WAIT_S)
    assert seen == ["list", "another", "list"], "it was begun, so it may be asked for again"


def test_the_log_lines_of_an_order_say_what_it_is_about() -> None:
    heard: list[dict[str, object]] = []
    work = _telling({"task": "a", "checkpoint": 3, "batch": None}, lambda: heard.append(dict(known())))
    work()
    assert heard == [{"task": "a", "checkpoint": 3}]
    assert known() == {}
