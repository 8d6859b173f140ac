"""How sure a finding can be: the one table of counts and priors, and what the suite makes of it."""

import json
from pathlib import Path
from typing import Any

import pytest

import count_answers
from skylight.findings import Finding, Known
from skylight.infer import priors
from skylight.infer.priors import ALL, CHOSEN, COUNTED, DECLARED, PRIORS, Counted, follows
from skylight.probe.suite import PROPERTIES, as_sure_as_right


def found(name: str, confidence: float, way: str = "") -> Finding:
    return Finding(name, "static", None, None, confidence, "", (), way)


class TestTable:
    def test_nothing_is_certain(self) -> None:
        assert all(0 < each < 1 for each in (*PRIORS.values(), *CHOSEN.values()))
        assert all(0 < each.chance < 1 for each in (*COUNTED.values(), Counted(0, 0), Counted(10**6, 10**6)))

    def test_no_way_is_surer_than_all_probes_support(self) -> None:
        assert ALL.asked > 300
        assert max(each.chance for each in COUNTED.values()) <= (ALL.right + 1) / (ALL.asked + 2)

    def test_few_probes_support_less_than_many(self) -> None:
        seen = [Counted(n, n).chance for n in (0, 1, 3, 6)]
        assert seen == sorted(set(seen))

    def test_a_way_that_is_wrong_more_often_is_less_sure(self) -> None:
        assert Counted(10, 20).chance < 0.75 < 0.9 < Counted(19, 20).chance < Counted(20, 20).chance

    def test_each_entry_is_of_a_property(self) -> None:
        assert {entry.split(",")[0] for entry in COUNTED} <= set(PROPERTIES)
        assert all(right <= asked for right, asked in ((each.right, each.asked) for each in COUNTED.values()))


class TestSuite:
    def test_no_finding_is_surer_than_its_way_was_right(self) -> None:
        way = next(entry for entry in COUNTED if entry.startswith("band_bytes, "))
        kept = found("band_bytes", 1.0, way.split(", ", 1)[1])
        (sure,) = as_sure_as_right([kept], Known([kept]))
        assert sure.confidence == COUNTED[way].chance < 1

    def test_evidence_that_is_less_sure_stays_so(self) -> None:
        kept = found("rotation_ns", 0.4)
        assert as_sure_as_right([kept], Known([kept])) == [kept]

    def test_a_report_of_the_drive_is_repeated(self) -> None:
        kept = found("zone_model", 1.0, DECLARED)
        assert as_sure_as_right([kept], Known([kept])) == [kept]

    def test_what_follows_is_as_sure_as_what_it_follows_from(self) -> None:
        kept = [found("drive_type", 1.0, "home"), found("cache_location", 1.0, follows("drive_type"))]
        kind, where = as_sure_as_right(kept, Known(kept))
        assert where.confidence == kind.confidence < 1

    def test_what_holds_by_type_is_no_surer_than_the_type(self) -> None:
        kept = [
            found("drive_type", 0.9, "home"),
            found("cache_medium", 0.8, "home"),
            found("track_bytes", 0.95, priors.BY_TYPE),
        ]
        assert as_sure_as_right(kept, Known(kept))[2].confidence == 0.8

    def test_a_quick_answer_has_a_count_of_its_own(self) -> None:
        kept = found("drive_type", 1.0, "log")
        quick, whole = (as_sure_as_right([kept], Known([kept], quick=each))[0] for each in (True, False))
        assert quick.confidence == priors.most_sure("drive_type", "log", quick=True)
        assert whole.confidence == priors.most_sure("drive_type", "log")


SCORE: dict[str, Any] = {
    "quick": False,
    "drives": [
        {
            "drive": "7",
            "kind": "ssd",
            "out_of_reach": ["hidden", "hidden_wrong"],
            "marks": [
                {"name": "mapping", "outcome": "right", "found": "static", "confidence": 0.9, "way": ""},
                {"name": "band_bytes", "outcome": "wrong", "found": 7, "confidence": 0.9, "way": "zones"},
                {"name": "band_bytes", "outcome": "right", "found": 8, "confidence": 0.9, "way": "zones"},
                {"name": "hidden", "outcome": "right", "found": 8, "confidence": 0.9, "way": ""},
                {"name": "hidden_wrong", "outcome": "wrong", "found": 8, "confidence": 0.9, "way": ""},
                {"name": "seek_ns", "outcome": "unknown", "found": None, "confidence": 0.0, "way": ""},
                {
                    "name": "zone_model",
                    "outcome": "right",
                    "found": "none",
                    "confidence": 1.0,
                    "way": DECLARED,
                },
            ],
        }
    ],
}


class TestTrials:
    def test_counted_is_what_a_score_counts(self) -> None:
        assert count_answers.counts(count_answers.answers(SCORE)) == {
            "band_bytes, zones": (1, 2),
            "hidden_wrong": (0, 1),
            "mapping": (1, 1),
        }

    def test_the_table_that_is_written_is_what_was_counted(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "score.json").write_text(json.dumps(SCORE), encoding="utf-8")
        monkeypatch.setattr(count_answers, "TABLE", tmp_path / "table.py")
        monkeypatch.setattr("sys.argv", ["count_answers.py", str(tmp_path / "score.json"), "--write"])
        assert count_answers.main() == 0
        text = (tmp_path / "table.py").read_text(encoding="utf-8")
        made: dict[str, object] = {}
        exec(text, made)
        assert made["PROBES"] == {
            **count_answers.counts(count_answers.answers(SCORE)),
            **count_answers.EARLIER,
        }
        assert made["PSEUDO"] in count_answers.WEIGHTS
        assert "1 probes of random drives 7 to 7" in text
