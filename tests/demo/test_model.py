"""The demo's data and model: the same in every run, with everything in it that the check is about."""

from __future__ import annotations

from collections import Counter

from ds_dagster.demo import data, model
from ds_dagster.demo.data import Out, Phase


def test_data_is_the_same_every_time_and_of_the_asked_size() -> None:
    first, second = list(data.phases(1003)), list(data.phases(1003))
    assert first == second
    assert sum(event.entity == "clicks" for phase in first for event in phase.events) == 1003


def test_data_holds_changes_deletes_strangers_and_late_comers() -> None:
    phases = list(data.phases(500))
    changes = [change for phase in phases for change in phase.changes if change.entity == "users"]
    versions = Counter(change.key["userid"] for change in changes)
    assert max(versions.values()) > 1
    assert any(change.value is None for change in changes)
    assert data.STRANGER not in versions
    assert not any(change.key["userid"] == data.LATE for change in phases[0].changes if change.key)
    clicked = {event.value["userid"] for phase in phases for event in phase.events}
    assert {data.STRANGER, data.LATE} <= clicked


def click(userid: str, url: str = "./home", device: str = "mobile") -> Out:
    return Out("clicks", None, {"event_time": 1, "device_id": device, "url": url, "userid": userid, "ip": "i"})


def user(userid: str, region: str) -> Out:
    value = {"registertime": 1, "userid": userid, "regionid": region, "gender": "OTHER", "interests": []}
    return Out("users", {"userid": userid}, value)


def test_model_by_hand() -> None:
    view = Out("pageviews", {"userid": "u1"}, {"viewtime": 5, "userid": "u1", "pageid": "p"})
    gone = Out("users", {"userid": "u1"}, None)
    phases = [
        Phase((user("u1", "r1"),), (click("u1"), click("u2", device="desktop"), view)),
        Phase((user("u1", "r2"),), (click("u1"), click("u1"))),
        Phase((gone,), (click("u1"),)),
    ]
    found = {e.relation: e.rows for e in model.expected(phases)}
    assert [row["user_regionid"] for row in found["user_clicks"]] == ["r1", "r2", "r2"]
    assert found["url_region_click_count"] == (
        {"click_url": "./home", "user_regionid": "r1", "url_region_click_count": 1},
        {"click_url": "./home", "user_regionid": "r2", "url_region_click_count": 2},
    )
    assert found["region_clicks"] == found["url_region_click_count"]
    assert found["url_visits"] == ({"url": "./home", "visits": 5},)
    assert [row["userid"] for row in found["desktop_clicks"]] == ["u2"]
    assert found["pageviews_kafka"] == (view.value,)


def test_interval_join_by_hand() -> None:
    view = {"viewtime": 5, "userid": "u1", "pageid": "p"}
    registered = {"userid": "u1", "regionid": "rk", "gender": "MALE"}
    wanted = {"viewtime": 5, "userid": "u1", "pageid": "p", "regionid": "rk", "gender": "MALE"}
    minutes = 60_000
    near = model.enriched([(10 * minutes, view)], [(5 * minutes, registered), (15 * minutes, registered)])
    assert near.rows == (wanted, wanted)
    far = model.enriched([(10 * minutes, view)], [(5 * minutes - 1, registered), (15 * minutes + 1, registered)])
    assert far.rows == ()
    assert model.enriched([(0, view)], [(0, registered | {"userid": "u2"})]).rows == ()
