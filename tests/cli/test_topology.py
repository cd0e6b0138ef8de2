"""sotto topology prints what the library computes; tests/topology checks the numbers."""

import json
import xml.etree.ElementTree

import pytest


@pytest.mark.parametrize("ranks", [2, 3, 8, 9, 16])
@pytest.mark.parametrize("name", ["0", "1", "2", "3", "4", "5", "hypercube(peers=1)", "torus", "hosts(2)"])
def test_show_as_json(run, name, ranks):
    job = run("topology", "show", name, "--ranks", ranks, "--json")
    if ranks % 2 and name in ("1", "3", "hosts(2)") or ranks & (ranks - 1) and name.startswith("hyper"):
        assert job.status == 2 and f"{ranks} ranks" in job.err
        return
    found = json.loads(job.out)
    assert found["ranks"] == ranks and 0 <= found["spectral_gap"] <= 1
    values = [float(rank) for rank in range(ranks)]
    exact = found["rounds_to_exact_average"]
    for number in range(exact or 3 * len(found["rounds"])):
        shown = found["rounds"][number % len(found["rounds"])]
        for rank, peers in enumerate(shown["sends_to"]):
            assert rank not in peers and len(set(peers)) == len(peers)
            assert all(shown["matrix"][peer][rank] > 0 for peer in peers)
        values = [sum(share * value for share, value in zip(row, values)) for row in shown["matrix"]]
        assert sum(values) == pytest.approx(ranks * (ranks - 1) / 2)
    near = [value == pytest.approx((ranks - 1) / 2, abs=1e-9) for value in values]
    assert all(near) == (exact is not None)


def test_show_prints_and_draws(good, tmp_path):
    text = good("topology", "show", "exponential", "--ranks", 8, "--svg", "a.svg").out
    assert "3 rounds in turns, directed" in text and "exact average after 3 rounds" in text and "   3 -> 7" in text
    root = xml.etree.ElementTree.parse(tmp_path / "a.svg").getroot()
    lines = [e for e in root.iter() if e.tag.endswith("line")]
    assert len(lines) == 3 * 8 - 4  # in the last round, ranks send to each other in pairs: one line with two heads for each
    assert "for more than 16 ranks" in good("topology", "show", "ring", "--ranks", 17).out


def test_one_of_ones_own(good, run, tmp_path):
    (tmp_path / "own.toml").write_text("[[round]]\nmatrix = [[0.5, 0.25, 0.25], [0.25, 0.75, 0], [0.25, 0, 0.75]]\n")
    found = json.loads(good("topology", "show", "own.toml", "--ranks", 3, "--json", "--svg", "own.svg").out)
    assert found["topology"] == "graph(sends_to=1:0.25 2:0.25; 0:0.25; 0:0.25)"
    assert found["mixing"] == "given" and found["doubly_stochastic"] and found["symmetric"]
    assert found["rounds"][0]["matrix"] == [[0.5, 0.25, 0.25], [0.25, 0.75, 0], [0.25, 0, 0.75]]
    good("train", "--ranks", 3, "--threads", 1, "--model", "logreg", "--train-size", 96,
         "--test-size", 32, "--batch-size", 8, "--max-steps", 4, "--algorithm", "d_psgd", "--topology", "own.toml",
         "--train-dir", "own")  # fmt: skip
    config = (tmp_path / "own" / "config.toml").read_text()
    assert "graph(sends_to=1:0.25 2:0.25; 0:0.25; 0:0.25)" in config and "mixing = 'given'" in config
    uneven = run("train", "--ranks", 3, "--algorithm", "d_psgd", "--topology", "graph(1 2; 2; 0)")
    assert uneven.status == 2 and "doubly stochastic" in uneven.err and uneven.err.count("\n") < 8
    job = run("topology", "show", "own.toml", "--ranks", 4)
    assert job.status == 2 and "3 ranks, and there are 4" in job.err


def test_list_and_mistakes(good, run):
    text = good("topology", "list").out
    for words in ("random_regular", "bipartite_linear", "metropolis", "options of torus", "rows=0"):
        assert words in text
    for arguments, words in [(["rnig"], "did you mean `ring`"), (["9"], "ids 0 to 5"), (["5", "--mixing", "metropolis"], "neighbours"),
                             (["5", "--svg", "a.png"], ".svg"), (["5", "--ranks", 0], "--ranks 0")]:  # fmt: skip
        job = run("topology", "show", *arguments)
        assert job.status == 2 and words in job.err, job.err
