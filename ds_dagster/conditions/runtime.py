"""Conditions of running jobs: journal, engine, checkpoints, requests."""

from __future__ import annotations

from ds_dagster.conditions.base import Condition

CONDITIONS: tuple[Condition, ...] = (
    Condition(
        "JOURNAL_LOCKED",
        "external",
        "the journal {journal} is locked by another process for more than {seconds} s",
        "end the program that holds it (a database browser, a backup); running jobs continue",
    ),
    Condition(
        "JOURNAL_UNREADABLE",
        "external",
        "the journal {journal} cannot be opened",
        "check owner and permissions of the file and of its folder",
    ),
    Condition(
        "JOURNAL_READ_ONLY",
        "external",
        "the journal {journal} cannot be written",
        "make the file and its folder writable for the user who runs this command; a read-only file system has to be "
        "mounted for writing",
    ),
    Condition(
        "JOURNAL_CORRUPT",
        "user",
        "the journal {journal} is damaged or is not a valid journal",
        "restore it from a backup; moving it away starts a new one, whose jobs start with new checkpoints",
    ),
    Condition(
        "JOURNAL_DISK_FULL",
        "external",
        "the journal {journal} cannot be written: the disk is full",
        "free space on that disk; running jobs continue, changes wait",
    ),
    Condition(
        "JOURNAL_UNREACHABLE",
        "unreachable",
        "the journal's database {journal} does not answer",
        "check that the server runs and that address, user and password are right",
    ),
    Condition(
        "JOURNAL_NEWER",
        "user",
        "the journal {journal} has schema {found}, this version of ds_dagster supports {known}",
        "upgrade ds_dagster in this environment to {version} or newer",
    ),
    Condition(
        "JOURNAL_OLDER",
        "user",
        "the journal {journal} has schema {found}, this version of ds_dagster needs {known}",
        "run `ds engine stop` and `ds engine start` with this version: the engine migrates the journal when it starts",
    ),
    Condition(
        "STATE_FILE_INVALID",
        "user",
        "{path} is not a valid state file: {reason}",
        "write one where the journal can be read: `ds plan --save {path}`",
    ),
    Condition(
        "JOURNAL_NETWORK_FILE_SYSTEM",
        "user",
        "the state folder {folder} is on a network file system ({kind}), where file locks cannot be trusted",
        "set `state` to a folder on a local disk, or `journal` to a Postgres URL",
    ),
    Condition(
        "JOURNAL_URL_INVALID",
        "user",
        "the setting journal is neither sqlite nor a Postgres URL",
        "write `sqlite`, `postgresql://user@host/db`, or a reference like ${{DS_JOURNAL_URL}}",
    ),
    Condition(
        "SKIP_WITHOUT_RECORD",
        "user",
        "{name} does not fail at a record ({state}, {condition}), so there is nothing to skip",
        "`ds ps` says why a job fails; a failure at a record names the record and the command that skips it",
    ),
    Condition(
        "SKIP_OTHER_RECORD",
        "user",
        "{name} does not fail at record {position} of partition {partition}, so it is not skipped",
        "it fails at another record of {entity}, which this skips: "
        "`ds skip {name} --partition {failed_partition} --offset '{failed_position}'`",
    ),
    Condition("JOB_UNKNOWN", "user", "there is no job or query called {name}", "did you mean {nearest}?"),
    Condition(
        "JOB_NOT_STARTED",
        "user",
        "{name} was never started, so it has no job",
        "`ds apply {name}` starts it, or its asset in Dagster",
    ),
    Condition(
        "DEFINITION_CHANGED",
        "user",
        "the definition of {name} is not the one that runs: {rule}",
        "{hint}",
    ),
    Condition(
        "RESET_WOULD_DOUBLE",
        "user",
        "a reset of {name} writes rows again that {sinks} already has; downstream: {readers}",
        "`ds reset {name} --from now` reads only what comes from now on; `--empty` first deletes the rows of its own "
        "topics; `--allow duplicates` writes them all the same (in Dagster `from_now`, `empty`, `allow_duplicates`: "
        "true with the action); a query of another name builds the new rows next to the old ones",
    ),
    Condition(
        "RESET_NOT_FROM_NOW",
        "user",
        "{name} cannot start from now: {reason}",
        "reset it without `--from now`: it reads its sources from their starting position again",
    ),
    Condition(
        "RESET_NOT_EMPTY",
        "user",
        "{entity} is not emptied by a reset of {name}: {reason}",
        "`ds reset {name} --from now` leaves its rows and writes none of them again; `--allow duplicates` writes them "
        "all again",
    ),
    Condition(
        "JOB_NOT_FINITE",
        "user",
        "{name} never ends, so it cannot be run to its end",
        "start it with `ds apply {name}` or materialize its asset",
    ),
    Condition(
        "JOB_IS_FINITE",
        "user",
        "{name} is loaded by runs that end, it is not kept running",
        "materialize its asset, or run `ds apply {name}`",
    ),
    Condition(
        "RESET_WHILE_LOADING",
        "user",
        "{name} is being loaded without a reset (request {request})",
        "wait for its end, or end it with `ds stop {name}`; then reset",
    ),
    Condition(
        "RUN_CANCELLED",
        "user",
        "the run of {name} (request {request}) was cancelled",
        "start another run when you need it",
    ),
    Condition(
        "RUN_ABANDONED",
        "external",
        "the step that ran {name} (request {request}) ended without a report",
        "the next run resumes from its checkpoint",
    ),
    Condition("REQUEST_UNKNOWN", "user", "there is no request {request}", "`ds ps` shows what runs"),
    Condition(
        "RUN_TIMED_OUT",
        "external",
        "the run of {name} (request {request}) did not end within {seconds} s; it continues",
        "raise the time limit, or look at `ds logs {name}`",
    ),
    Condition(
        "ENGINE_ALREADY_RUNNING",
        "user",
        "an engine of this project runs already ({holder})",
        "use it, or end it with `ds engine stop`",
    ),
    Condition(
        "ENGINE_JVM_LIVES",
        "external",
        "the Spark JVM of an earlier engine still holds {lock} after {seconds} s",
        "it ends after its current batch; if it does not, end the process that holds the lock",
    ),
    Condition(
        "ENGINE_LEASE_HELD",
        "user",
        "the engine on {host} (process {pid}) holds the lease of this journal",
        "stop that engine first; its lease ends {seconds} s after its last heartbeat",
    ),
    Condition(
        "ENGINE_LEASE_LOST",
        "external",
        "another engine took the lease of this journal",
        "this engine has stopped its jobs; find out who started the second one",
    ),
    Condition(
        "ENGINE_STATE_GONE",
        "external",
        "the state folder {folder} of the running engine was removed or replaced",
        "this engine has stopped its jobs; a new one starts with a new journal and new checkpoints",
    ),
    Condition(
        "ENGINE_NOT_RUNNING",
        "external",
        "the engine does not run",
        "start it with `ds engine start`",
    ),
    Condition(
        "ENGINE_STOPPED",
        "external",
        "the job ended with the engine, after its batch",
        "`{command}` resumes from its checkpoint",
    ),
    Condition(
        "ENGINE_NOT_ANSWERING",
        "external",
        "no engine has answered for {seconds} s",
        "the launcher is `external`: start the engine where it is meant to run (`ds engine run`)",
    ),
    Condition(
        "ENGINE_SILENT",
        "external",
        "the engine (process {pid} on {host}) lives but has not reported for {seconds} s",
        "look at its log; `ds engine stop` ends it, the jobs resume from their checkpoints",
    ),
    Condition(
        "ENGINE_TAKES_OVER",
        "external",
        "the engine that ran the job is gone; the new engine has not taken it over yet",
        "wait some seconds: the engine starts the job again from its checkpoint",
    ),
    Condition(
        "ENGINE_START_FAILED",
        "external",
        "the engine ended while starting (exit code {code}): {reason}",
        "see its log {log}",
    ),
    Condition(
        "ENGINE_START_SLOW",
        "external",
        "the engine was not ready within {seconds} s",
        "it may still be starting; see its log {log}",
    ),
    Condition(
        "ENGINE_NOT_STOPPED",
        "external",
        "the engine (process {pid}) did not end within {seconds} s",
        "a long batch may be running; run `ds engine stop` again, or end process {pid}",
    ),
    Condition(
        "ENGINE_JVM_DIED",
        "external",
        "the Spark JVM has ended",
        "the engine ends too and is started again; raise `memory` in [tool.ds-dagster.engine] (of a pool: "
        "'compute_pool.memory') if this repeats",
    ),
    Condition(
        "ENGINE_OUT_OF_MEMORY",
        "external",
        "the engine's Spark JVM ran out of its {memory} of memory while it was in a batch of {jobs}",
        "raise `memory` in [tool.ds-dagster.engine] (of a pool: 'compute_pool.memory'), or set "
        "'max.records.per.batch'; the engine restarts, and a job that was in the same batch at two such ends fails",
    ),
    Condition(
        "CHECKPOINT_MISSING",
        "user",
        "the checkpoint of {name} (version {version}) is gone: {path}",
        "restore the folder, or run `ds reset {name}` to read its sources again from the start",
    ),
    Condition(
        "STAGE_REFUSED",
        "user",
        "{name} cannot be built next to the running query: {reason}",
        "`ds reset {name}` starts it over; or give the changed query another name and move its readers",
    ),
    Condition(
        "STREAM_NOT_HANDED_OVER",
        "user",
        "{name} cannot continue exactly where the running version stopped: {reason}",
        "the running version continues; `ds promote` starts another attempt",
    ),
    Condition(
        "STAGE_NOTHING_SERVES",
        "user",
        "{name} was never started, so no version serves yet",
        "`ds apply {name}` starts it",
    ),
    Condition(
        "STAGE_NOT_NEEDED",
        "user",
        "{name} runs with this definition already",
        "`ds plan` shows the queries that changed",
    ),
    Condition(
        "STAGED_OTHERWISE",
        "user",
        "version {version} of {name} is staged with another definition",
        "`ds promote {name}` lets it take over, `ds abandon {name}` drops it",
    ),
    Condition(
        "NOTHING_STAGED",
        "user",
        "no version of {name} is staged",
        "`ds stage {name}` builds the changed definition next to the running one",
    ),
    Condition(
        "NOTHING_KEPT",
        "user",
        "version {version} of {name} is not kept; kept versions: {kept}",
        "`ds ps` shows all versions; an old definition that is gone is built again by `ds stage {name}`",
    ),
    Condition(
        "PROMOTION_CHANGES_COLUMNS",
        "user",
        "version {version} of {name} does not have the columns that its readers know: {changes}",
        "`ds promote {name} --yes` lets it take over all the same, as do `ds apply --allow new-version,differences` "
        "and `allow_differences: true` in the config of a run",
    ),
    Condition(
        "PROMOTION_CHANGES_ROWS",
        "user",
        "version {version} of {name} has {rows} rows, and the one that serves {before}: more than {percent} % apart",
        "`ds diff {name}` shows the rows; `ds promote {name} --yes` lets it take over all the same, as do `ds apply "
        "--allow new-version,differences` and `allow_differences: true` in the config of a run",
    ),
    Condition(
        "PROMOTION_UNDERWAY",
        "user",
        "version {version} of {name} is taking over",
        "wait for it (`ds ps` shows it), or stop it with `ds abandon {name}`",
    ),
    Condition(
        "PROMOTION_TIMED_OUT",
        "external",
        "version {version} of {name} did not catch up in time; it is {state} and stays staged",
        "`ds ps` shows what it has not read yet; `ds promote {name} --timeout SECONDS` waits longer",
    ),
    Condition(
        "PROMOTION_HELD_UP",
        "external",
        "version {version} of {name} did not take over within {seconds} s, and neither version runs: {reason}",
        "the engine retries it (`ds ps` shows when); remove the cause",
    ),
    Condition(
        "PROMOTION_GIVEN_UP",
        "user",
        "version {version} of {name} did not take over, and the version before it still serves: {reason}",
        "{fix}",
    ),
    Condition(
        "REPAIR_NOT_EXACT",
        "user",
        "{name} is {state} and a reset does not repair it exactly: {reason}",
        "`ds repair {name}` lists the possible repairs; `ds reset {name}` resets it all the same",
    ),
    Condition(
        "REPAIR_FROM_SINK_REFUSED",
        "user",
        "{name} cannot resume from its sink: {reason}",
        "put a newer copy of the checkpoint back; else `ds repair {name} --reset` resets it where that is exact, and "
        "`ds reset {name}` in any case",
    ),
    Condition(
        "CHECKPOINT_UNKNOWN",
        "user",
        "the folder {path} exists, but the journal has no checkpoint of {name} there",
        "move it away, or run `ds reset {name}`; it is never used without a reset",
    ),
    Condition(
        "CHECKPOINT_OTHER_STATE",
        "user",
        "{name} was started by ds_dagster {version}, and this version keeps another kind of state for it",
        "run `ds reset {name}` to read its sources again from the start",
    ),
    Condition(
        "JOB_SPEC_NEWER",
        "user",
        "ds_dagster {version} defined the job {name}, and this version ({own}) does not know its {unread}",
        "upgrade ds_dagster here to {version} or newer; `ds reset {name}` starts the job over with this version",
    ),
    Condition(
        "SLICE_INVALID",
        "user",
        "the stored definition of {name} does not compile with this version of ds_dagster",
        "run `ds check`, then `ds restart {name}`",
    ),
    Condition(
        "JOB_ENDED_BY_ITSELF",
        "internal",
        "the Spark query of {name} ended without a request",
    ),
    Condition(
        "RUNTIME_IMPOSSIBLE_TRANSITION",
        "internal",
        "{name} cannot go from {source} to {target}",
    ),
)
