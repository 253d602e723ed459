"""Conditions of the topic: checkpoints in a bucket."""

from __future__ import annotations

from ds_dagster.conditions.base import Condition

CONDITIONS: tuple[Condition, ...] = (
    Condition(
        "CHECKPOINT_KEY_WRITTEN",
        "user",
        "{name} of [checkpoints] in {file} is a value, and keys are not kept in files of a project",
        'write {name} = "${{{variable}}}", and set that variable in .env or in the environment',
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
