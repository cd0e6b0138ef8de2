#!/usr/bin/env python3
"""Images a second on one core: our loader compared with torchvision's pipeline in Pillow, on the same pictures.

    python bench/loader.py build/release/bin/bench_loader DIR

DIR is a folder of pictures as `--data folder` takes it. Pillow is installed into a separate environment,
~/.cache/sotto/venv-loader, never into the project's. The pipeline is written out in Pillow and NumPy: torchvision's own
adds the cost of its tensors to that. Training is RandomResizedCrop, RandomHorizontalFlip, ToTensor and Normalize;
evaluation is Resize, CenterCrop, ToTensor and Normalize. Both programs run in turns on one thread, and count the seconds
of the processor.
"""

import argparse
import math
import os
import pathlib
import random
import statistics
import subprocess
import sys
import time
import venv

PEERS = {"pillow": "13.0.0", "numpy": "2.4.6"}


def peers_python():
    """The interpreter of the environment, which is made when it does not exist."""
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache"))
    folder = cache / "sotto" / "venv-loader"
    python, stamp = folder / "bin" / "python", folder / "complete"
    wanted = f"{sorted(PEERS.items())} {sys.version_info[:2]}"
    if stamp.exists() and stamp.read_text() == wanted:
        return python
    print(f"installing {', '.join(PEERS)} in {folder}", file=sys.stderr)
    venv.create(folder, with_pip=True, clear=True)
    pins = [f"{name}=={version}" for name, version in PEERS.items()]
    subprocess.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *pins], check=True)
    stamp.write_text(wanted)
    return python


def random_box(width, height):
    """The same as torchvision.transforms.RandomResizedCrop.get_params."""
    for _ in range(10):
        area = width * height * random.uniform(0.08, 1)
        ratio = math.exp(random.uniform(math.log(3 / 4), math.log(4 / 3)))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            left, top = random.randint(0, width - w), random.randint(0, height - h)
            return left, top, left + w, top + h
    return 0, 0, width, height


def pillow_rates(folder, seconds, side):
    """Images a second of training and of evaluation."""
    import numpy
    from PIL import Image

    mean = numpy.array([0.485, 0.456, 0.406], numpy.float32)[:, None, None]
    deviation = numpy.array([0.229, 0.224, 0.225], numpy.float32)[:, None, None]
    files = sorted(path for path in pathlib.Path(folder, "train").rglob("*") if path.suffix.lower() in (".jpg", ".jpeg", ".png"))
    batch = numpy.empty((32, 3, side, side), numpy.float32)

    def training(image):
        image = image.crop(random_box(*image.size)).resize((side, side), Image.BILINEAR)
        return image.transpose(Image.FLIP_LEFT_RIGHT) if random.random() < 0.5 else image

    def evaluation(image):
        shorter = side * 256 // 224
        w, h = image.size
        size = (shorter, shorter * h // w) if w <= h else (shorter * w // h, shorter)
        left, top = round((size[0] - side) / 2), round((size[1] - side) / 2)
        return image.resize(size, Image.BILINEAR).crop((left, top, left + side, top + side))

    def rate(change):
        random.seed(1)
        random.shuffle(files)
        begin, done = time.process_time(), 0
        while time.process_time() - begin < seconds:
            with open(files[done % len(files)], "rb") as file:
                pixels = numpy.asarray(change(Image.open(file).convert("RGB")))
            values = batch[done % 32]
            numpy.divide(pixels.transpose(2, 0, 1), numpy.float32(255), out=values)
            values -= mean
            values /= deviation
            done += 1
        return done / (time.process_time() - begin)

    return rate(training), rate(evaluation)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="bench_loader, or `pillow`, with which this script calls itself")
    parser.add_argument("folder")
    parser.add_argument("--seconds", type=float, default=4, help="of a measurement")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--side", type=int, default=224)
    options = parser.parse_args()
    if options.program == "pillow":
        print(*pillow_rates(options.folder, options.seconds, options.side))
        return
    tail = [options.folder, str(options.seconds), str(options.side)]
    commands = {
        "Pillow": [peers_python(), __file__, "pillow", options.folder, "--seconds", tail[1], "--side", tail[2]],
        "sotto": [options.program, *tail],
    }
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    rates = {name: [] for name in commands}
    for _ in range(options.rounds):
        for name, command in commands.items():
            said = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout
            rates[name].append([float(word) for word in said.split()])
    print("| images a second of one core | training | evaluation |\n| --- | ---: | ---: |")
    medians = {name: [statistics.median(column) for column in zip(*rows)] for name, rows in rates.items()}
    for name, (training, evaluation) in medians.items():
        spread = [(max(column) - min(column)) / 2 for column in zip(*rates[name])]
        print(f"| {name} | {training:.0f} ± {spread[0]:.0f} | {evaluation:.0f} ± {spread[1]:.0f} |")
    ratios = [ours / theirs for ours, theirs in zip(medians["sotto"], medians["Pillow"])]
    print(f"| ratio | {ratios[0]:.2f} | {ratios[1]:.2f} |")


if __name__ == "__main__":
    main()
