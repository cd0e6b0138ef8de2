"""Plots of runs that send seldom, never, or have one step, in a browser."""

import subprocess

import pytest

from conftest import DEADLINE, TINY


@pytest.fixture(scope="module")
def sending_seldom(sotto, tmp_path_factory):
    """A page of a run that sends nothing, one that sends in each fourth step, and one of a single step."""
    folder = tmp_path_factory.mktemp("seldom")
    for name, flags in {"alone": ["--max-steps", 8], "local": ["--ranks", 2, "--max-steps", 8, "--algorithm", "local(h=4)"],
                        "one": ["--max-steps", 1]}.items():  # fmt: skip
        subprocess.run([sotto, "train", *TINY, *map(str, flags), "--train-dir", name], cwd=folder, check=True, capture_output=True, timeout=DEADLINE)
    subprocess.run([sotto, "report", "alone", "local"], cwd=folder, check=True, capture_output=True, timeout=DEADLINE)
    subprocess.run([sotto, "report", "one", "-o", "one.html"], cwd=folder, check=True, capture_output=True, timeout=DEADLINE)
    return folder


def test_all_steps_are_drawn_against_bytes(sending_seldom, browser):
    browser.open(sending_seldom / "report.html", 1000)
    browser.evaluate("document.querySelector('input[value=bytes]').click()")
    drawn = browser.evaluate("curves[0].chart.data.slice(1).map(column => column.filter(value => value != null))")
    assert drawn == browser.evaluate("curves[0].lines.map(line => line.mean)") and list(map(len, drawn)) == [8, 8]
    assert browser.evaluate("curves[0].chart.series.slice(1).map(line => line.points.show())") == [True, False], "a line of one place is a point"
    assert browser.errors == []


def test_the_drawing_has_the_plots_lines(sending_seldom, browser):
    browser.open(sending_seldom / "report.html", 1000)
    browser.evaluate("document.querySelector('input[value=bytes]').click(); document.getElementById('log-x').click()")
    names = browser.evaluate("[...svgOfCurves(curves[0]).querySelectorAll('text')].map(text => text.textContent)")
    groups = browser.evaluate("curves[0].lines.map(line => curves[0].nameOf(line))")
    assert [name for name in names if name in groups] == groups[1:], "the run that sent nothing has no place on this axis"
    (path,) = browser.evaluate("[...svgOfCurves(curves[0]).querySelectorAll('g[clip-path] path')].map(path => path.getAttribute('d'))")
    assert path.count("L") == 8 - 3 - 1 and browser.errors == [], "nothing was sent before the fourth step"


def test_keys_in_a_plot_of_one_step(sending_seldom, browser):
    browser.open(sending_seldom / "one.html", 1000)
    browser.evaluate("document.querySelector('#plot-loss-of-steps .host').focus()")
    for key in "+-0":
        browser.press(key, key)
    browser.press("ArrowRight")
    browser.press("ArrowRight", shift=True)
    browser.evaluate("new Promise(done => setTimeout(done, 50))")
    assert browser.errors == [] and browser.evaluate("curves[0].chart.scales.x.max > curves[0].chart.scales.x.min")
