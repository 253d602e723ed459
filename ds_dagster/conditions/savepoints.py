"""Conditions of the topic: savepoints, and checkpoints in a bucket."""

from __future__ import annotations

from ds_dagster.conditions.base import Condition

CONDITIONS: tuple[Condition, ...] = (
    Condition(
        "SAVEPOINT_REFUSED",
        "user",
        "no savepoint of {name} is made: {reason}",
        "`ds ps` shows the query's batches; `ds savepoint --list` shows the savepoints there are",
    ),
    Condition(
        "SAVEPOINT_UNKNOWN",
        "user",
        "there is no savepoint {savepoint} of {name}",
        "did you mean {nearest}? `ds savepoint --list` lists them, `--from` names another folder",
    ),
    Condition(
        "SAVEPOINT_UNREADABLE",
        "external",
        "the savepoint in {path} cannot be read",
        "put the whole folder back, or delete it",
    ),
    Condition(
        "SAVEPOINT_NOT_WRITTEN",
        "external",
        "the savepoint of {name} cannot be written or deleted",
        "check the folder's permissions and free space; nothing else has changed",
    ),
    Condition(
        "RESTORE_WHILE_RUNNING",
        "user",
        "{name} is {state}; a savepoint is restored while its query is stopped",
        "run `ds stop {name}` first",
    ),
    Condition(
        "RESTORE_REFUSED",
        "user",
        "{name} cannot resume from savepoint {savepoint}: {reason}",
        "{hint}",
    ),
    Condition(
        "CHECKPOINT_KEY_WRITTEN",
        "user",
        "{name} of [checkpoints] in {file} is a value, and keys are not kept in files of a project",
        'write {name} = "{reference}", and set the variable in .env or in the environment',
        "22023",
    ),
    Condition(
        "CHECKPOINT_BUCKET_MISSING",
        "user",
        "the bucket {bucket} of the checkpoints does not exist ({place})",
        "create it, or correct `url` and `region` of [checkpoints]",
        "22023",
    ),
    Condition(
        "CHECKPOINT_BUCKET_REFUSED",
        "user",
        "the bucket {bucket} of the checkpoints refused to {action} ({place})",
        "check the keys of [checkpoints], or the role of this machine: it needs s3:ListBucket, s3:GetObject, "
        "s3:PutObject, s3:DeleteObject",
    ),
    Condition(
        "CHECKPOINT_BUCKET_UNREACHABLE",
        "unreachable",
        "the bucket {bucket} of the checkpoints did not answer a request to {action} ({place})",
        "check `endpoint_url` of [checkpoints] and the network; jobs retry",
    ),
    Condition(
        "CHECKPOINT_BUCKET_FAILED",
        "external",
        "the bucket {bucket} of the checkpoints failed to {action} ({place})",
        "see the detail",
    ),
    Condition(
        "CHECKPOINTS_NOT_USABLE",
        "external",
        "the bucket of [checkpoints] cannot be used: {found}",
        "run `ds doctor --online`",
    ),
    Condition(
        "CHECKPOINT_BUCKET_OVERWRITES",
        "user",
        "the bucket {bucket} of the checkpoints replaces an object although the request says that it must be new "
        "({place})",
        "use a service with conditional writes (If-None-Match), as Amazon S3 has them: without them two engines could "
        "both write a batch",
        "0A000",
    ),
    Condition(
        "CHECKPOINT_EXCHANGED",
        "external",
        "another process has replaced the checkpoint {path} meanwhile",
        "look at `ds ps`, then repeat the command",
    ),
)
