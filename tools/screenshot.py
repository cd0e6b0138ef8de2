"""Makes docs/report.png, the picture of a report, from three short trainings: python tools/screenshot.py build/release/bin/sotto"""

import pathlib
import subprocess
import sys
import tempfile

from PIL import Image  # comes with tensorboard

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "cli"))
import chromium  # noqa: E402

RUNS = {"none": "none", "qsgd": "qsgd(4) | rans", "topk": "ef | topk(0.01)"}
WIDTH, HEIGHT = 1440, 1330


def main():
    program = pathlib.Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as folder:
        for name, codec in RUNS.items():
            subprocess.run([program, "train", "--model", "lenet", "--data", "digits", "--train-size", "6000", "--test-size", "1000", "--ranks", "2", "--max-steps", "120",
                            "--eval-freq", "15", "--codec", codec, "--train-dir", f"runs/{name}"], cwd=folder, check=True)
        subprocess.run([program, "report", *(f"runs/{name}" for name in RUNS), "-o", "report.html", "--target", "accuracy=0.9"], cwd=folder, check=True)
        browser = chromium.Chromium(folder)
        try:
            browser.open(pathlib.Path(folder) / "report.html", WIDTH)
            browser.evaluate("document.querySelector('input[value=bytes]').click()")
            browser.evaluate("document.getElementById('log-x').click()")
            browser.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
            browser.screenshot(f"{folder}/page.png")
        finally:
            browser.close()
        with Image.open(f"{folder}/page.png") as page:
            page.convert("RGB").crop((0, 0, WIDTH, HEIGHT)).quantize(48).save(ROOT / "docs" / "report.png", optimize=True)


main()
