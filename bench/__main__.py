"""``make bench``: ratios, contenders in turns, medians and spread, CPU seconds beside wall time.

``python -m bench NAME...`` runs some of them; without a name, all.
"""

import sys

from bench import core, growth, history, jobs, keyed, recovery, sinks, windows

ON_SPARK = {
    "cost": jobs.checkpoint_cost,
    "duration": jobs.checkpoint_duration,
    "sizes": jobs.batch_sizes,
    "hop": jobs.channel_hop,
    "keyed": keyed.keyed,
    "overtaking": jobs.overtaking,
    "task": recovery.task_level,
    "windows": windows.windows,
    **sinks.ON_SPARK,
}
ALONE = {
    "core": core.core,
    "growth": growth.growth,
    "history": history.history,
    "restart": recovery.job_level,
    **sinks.ALONE,
}


def main(names: list[str]) -> int:
    """Run the comparisons of these names, or all."""
    unknown = [name for name in names if name not in {**ON_SPARK, **ALONE}]
    if unknown:
        print(f"bench: there is no {unknown[0]}; there are: {', '.join((*ALONE, *ON_SPARK))}", file=sys.stderr)
        return 2
    wanted = names or [*ALONE, *ON_SPARK]
    for name, work in ALONE.items():
        if name in wanted:
            work()
    if any(name in wanted for name in ON_SPARK):
        spark = jobs.make_session(sinks.PACKAGES if any(name in wanted for name in sinks.ON_SPARK) else ())
        for name, compare in ON_SPARK.items():
            if name in wanted:
                compare(spark)
        spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
