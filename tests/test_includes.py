"""Includes and targets point downwards only: the picture in docs/design.md is the link graph."""

import collections
import pathlib
import re

# From the bottom up. Folders on one line are siblings: they do not include each other.
LEVELS = [
    ["sotto/core"],
    ["sotto/kernels"],
    ["sotto/codec", "sotto/comm", "sotto/optim", "sotto/topology"],
    ["sotto/aggregate"],
    ["sotto/algorithm"],
    ["sotto/capi"],
    ["adapters/mpi"],
    ["adapters/c10d"],
    ["app/data", "app/http", "app/model"],
    ["app/task"],
    ["app/launch", "app/train"],
    ["app/advise", "app/report", "app/tune"],
    ["app/analyze"],
    ["app/cli"],
]
HOUSES = ("sotto", "adapters", "app")
LEVEL_OF = {folder: level for level, folders in enumerate(LEVELS) for folder in folders}
INCLUDE = re.compile(r'^\s*#\s*include\s*["<]((?:sotto|adapters|app)/[^/"<>]+)/', re.MULTILINE)
LIBRARY = re.compile(r"\bsotto_library\((\w+)(.*?)\)", re.DOTALL)


def may_use(user, used):
    return user == used or LEVEL_OF[user] > LEVEL_OF[used]


def bad_includes(files):
    """`files` yields (folder, name, text)."""
    for folder, name, text in files:
        for used in INCLUDE.findall(text):
            if used not in LEVEL_OF or folder not in LEVEL_OF or not may_use(folder, used):
                yield f"{name} includes {used}/"


def bad_targets(files):
    """`files` yields (folder, text of its CMakeLists.txt)."""
    targets = {}
    for folder, text in files:
        for name, rest in LIBRARY.findall(re.sub(r"#.*", "", text)):
            depends = re.search(r"\bDEPENDS\s+((?:[a-z0-9_]+\s*)*)", rest)
            targets[name] = (folder, depends.group(1).split() if depends else [])
    for name, (folder, depends) in targets.items():
        for used in depends:
            if used not in targets:
                yield f"{name} depends on {used}, which is no target"
            elif not may_use(folder, targets[used][0]):
                yield f"{name} depends on {used}"


def sources(root):
    for house in HOUSES:
        for path in sorted((root / house).rglob("*")):
            if path.suffix in (".h", ".cc", ".cu", ".cuh"):
                name = path.relative_to(root)
                yield "/".join(name.parts[:2]), str(name), path.read_text()


def cmake_lists(root):
    for house in HOUSES:
        for path in sorted((root / house).glob("*/CMakeLists.txt")):
            yield f"{house}/{path.parent.name}", path.read_text()


def test_every_folder_has_its_place(root):
    folders = {f"{house}/{path.name}" for house in HOUSES for path in (root / house).iterdir() if path.is_dir()}
    assert folders == set(LEVEL_OF)


def test_includes_point_downwards(root):
    files = list(sources(root))
    assert "sotto/core/layout.cc" in [name for _, name, _ in files]
    assert list(bad_includes(files)) == []


TORCH = re.compile(r'#\s*include\s*[<"](?:torch|ATen|c10|gloo|caffe2)/|\b(?:at|c10|c10d|torch)::')


def test_the_library_is_free_of_libtorch(root):
    files = list(sources(root))
    assert [name for folder, name, text in files if folder.startswith("sotto/") and TORCH.search(re.sub(r"//.*", "", text))] == []
    assert "adapters/c10d/store.cc" in [name for _, name, text in files if TORCH.search(text)]


def knows_a_model(folder, name, text):
    """Above task/, code only knows which model and data set were asked for. `sotto data` is an exception."""
    used = set(re.findall(r'#include "app/((?:model|data)/[^"]+)"', text)) - {"data/options.h", "data/partition.h"}
    return LEVEL_OF[folder] > LEVEL_OF["app/task"] and not name.startswith("app/cli/data") and bool(used)


def test_nothing_above_a_task_knows_its_model(root):
    assert [name for folder, name, text in sources(root) if knows_a_model(folder, name, text)] == []
    assert knows_a_model("app/train", "f.cc", '#include "app/model/image_model.h"')
    assert not knows_a_model("app/task", "f.cc", '#include "app/model/image_model.h"')
    assert not knows_a_model("app/train", "f.cc", '#include "app/data/options.h"')


def test_targets_point_downwards(root):
    files = list(cmake_lists(root))
    assert sum(len(LIBRARY.findall(text)) for _, text in files) >= len(LEVEL_OF) - 1  # cli is a program
    assert list(bad_targets(files)) == []


def test_includes_are_found_when_wrong():
    def bad(folder, line):
        return list(bad_includes([(folder, "f.cc", f"#pragma once\n{line}\nint x;\n")]))

    assert bad("sotto/core", '#include "sotto/core/error.h"') == []
    assert bad("app/train", '#include "sotto/comm/world.h"') == []
    assert bad("sotto/core", '#include "sotto/codec/codec.h"') == ["f.cc includes sotto/codec/"]
    assert bad("sotto/comm", '  #  include <sotto/codec/codec.h>') == ["f.cc includes sotto/codec/"]
    assert bad("sotto/aggregate", '#include "sotto/algorithm/sync.h"') == ["f.cc includes sotto/algorithm/"]
    assert bad("sotto/algorithm", '#include "app/task/task.h"') == ["f.cc includes app/task/"]
    assert bad("app/cli", '#include "sotto/elsewhere/a.h"') == ["f.cc includes sotto/elsewhere/"]


def test_targets_are_found_when_wrong():
    core = ("sotto/core", "sotto_library(core SOURCES a.cc)")
    assert list(bad_targets([core, ("sotto/comm", "sotto_library(comm\n  SOURCES b.cc\n  DEPENDS core\n  LINK x)")])) == []
    codec = ("sotto/codec", "sotto_library(codec SOURCES c.cc DEPENDS core comm)")
    comm = ("sotto/comm", "sotto_library(comm SOURCES b.cc)")
    assert list(bad_targets([core, codec, comm])) == ["codec depends on comm"]
    assert list(bad_targets([core, ("sotto/comm", "sotto_library(comm DEPENDS kernels)")])) == [
        "comm depends on kernels, which is no target"
    ]


# Every mutex must be named as the guard of a member; otherwise nothing checks its use.
def bad_locks(files):
    """`files` yields (name, text)."""
    for name, text in files:
        for word in re.findall(r"\bstd::(?:mutex|condition_variable|lock_guard|scoped_lock)\b", text):
            yield f"{name} uses {word}"
        for mutex in re.findall(r"^\s*(?:mutable )?Mutex (\w+);", text, re.MULTILINE):
            if not re.search(rf"SOTTO_GUARDED_BY\((?:\w+->)?{mutex}\)", text):
                yield f"{name}: nothing says that {mutex} guards it"


def test_locks_are_checked(root):
    def files(*folders):
        return [(str(path.relative_to(root)), path.read_text()) for folder in folders
                for path in sorted((root / folder).rglob("*")) if path.suffix in (".h", ".cc")]

    assert list(bad_locks(f for f in files("sotto", "adapters", "app", "python") if f[0] != "sotto/core/thread.h")) == []
    assert [bad for bad in bad_locks(files("tests")) if " uses " in bad] == []  # a local variable cannot say what guards it
    assert len(list(bad_locks([("a.h", "  Mutex mutex_;\n  std::mutex other_;")]))) == 2


# These files turn a user's text into specs: files next to the tables, files that hold codecs of ours, and files of the
# trainer that read the options of a run, or its record. All other files take specs.
READERS = {
    "sotto/aggregate/auto_codec.cc", "sotto/aggregate/recipe.cc", "sotto/algorithm/server/links.cc",
    "sotto/algorithm/server/parameter_server.cc", "sotto/algorithm/table.cc",
    "sotto/capi/average.cc", "sotto/capi/codec.cc", "sotto/capi/group.cc", "sotto/capi/stepper_state.cc", "sotto/capi/steps.cc",
    "sotto/capi/tensor_aggregate.cc", "sotto/capi/tensor_codec.cc",
    "sotto/codec/stages.cc", "app/model/library.cc", "sotto/optim/parameter_groups.cc", "sotto/optim/schedule.cc",
    "app/task/image_task.cc", "app/task/metric.cc", "app/task/table.cc", "sotto/topology/mixing.cc",
    "sotto/topology/table.cc", "sotto/topology/given_graphs.cc", "app/train/options/choices.cc", "app/train/record/capture.cc",
    "app/train/evaluator.cc", "app/train/options/optimiser.cc",
}
PARSES = re.compile(r"\b(?:parse_expression|parse_arguments|parse_model|parse_links|read_(?:recipe|stages|memory|aggregator|algorithm|downlink|topology|topology_file|mixing|schedule|"
                    r"peer_schedule|optimiser|target|buckets|capture)|(?:\w*table\(?\)?|models)\.read)\(")


def test_what_was_read_is_not_parsed_again(root):
    found = {name for folder, name, text in sources(root)
             if folder not in ("app/cli", "sotto/core", "sotto/comm") and name.endswith(".cc") and PARSES.search(text)}
    assert found == READERS


OPTION = re.compile(r'v\.option\(\s*"([a-z][a-z-]*)"')


def test_flags_are_spelled_by_the_command_line_alone(root):
    files = list(sources(root))
    names = {name for _, _, text in files for name in OPTION.findall(text)}
    assert {"codec", "lr", "train-dir"} <= names
    spelled = re.compile(r"(?<![\w-])--(" + "|".join(sorted(names, key=len, reverse=True)) + r")(?![\w(-])")
    assert spelled.search("say --train-dir") and not spelled.search("--lr_; --codecs")
    found = [f"{name}: --{option}" for folder, name, text in files if folder != "app/cli"
             for line in text.splitlines() for option in spelled.findall(line.strip()) if not line.strip().startswith("--")]
    assert found == []


def test_what_is_const_in_codec_is_const(root):
    assert [name for folder, name, text in sources(root) if folder == "sotto/codec" and re.search(r"\bmutable\b", text)] == []


def test_a_file_can_be_read_in_one_go(root):
    assert [name for _, name, text in sources(root) if text.count("\n") > 350 and name != "sotto/capi/sotto.h"] == []


def test_a_folder_can_be_looked_over(root):
    folders = collections.Counter(str(pathlib.PurePath(name).parent) for _, name, _ in sources(root))
    assert {folder: count for folder, count in folders.items() if count > 45} == {}


def test_few_files_are_slivers(root):
    files = list(sources(root))
    slivers = [name for _, name, text in files if text.count("\n") < 30]
    assert len(slivers) <= 0.08 * len(files), slivers


def test_the_tree_stays_small(root):
    assert sum(path.is_file() for house in HOUSES for path in (root / house).rglob("*")) <= 750
    lines = collections.Counter()
    for folder, _, text in sources(root):
        lines[folder.split("/")[0]] += text.count("\n")
    assert lines["sotto"] <= 50_000 and lines["app"] <= 35_000, lines
