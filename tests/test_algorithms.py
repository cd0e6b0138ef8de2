"""The interface of algorithms stays small, and those that have a paper read like it."""

import re


def body_of(text, head):
    """What is between the braces of this class."""
    begin = text.index("{", re.search(rf"\b{head}\b[^;{{]*(?={{)", text).start())
    depth = 0
    for i in range(begin, len(text)):
        depth += {"{": 1, "}": -1}.get(text[i], 0)
        if depth == 0:
            return re.sub(r"//.*", "", text[begin + 1 : i])
    raise AssertionError(f"{head} does not end")


def virtual_functions(text, head):
    return re.findall(r"\bvirtual\b[^;({]*?(~?\w+)\(", body_of(text, head))


def fields(text, head):
    body, before = body_of(text, head), None
    while body != before:  # from the inside: initialisers, parameters, and nested structs
        before, body = body, re.sub(r"\{[^{}]*\}", "", re.sub(r"\([^()]*\)", "", body))
    statements = [" ".join(statement.split()) for statement in body.split(";")]
    return [s for s in statements if s and not s.startswith("struct ")]


def test_the_interface_is_small(root):
    header = (root / "sotto/algorithm/algorithm.h").read_text()
    functions = virtual_functions(header, "class Algorithm")
    assert {"run_step", "drain", "visit_state"} <= set(functions) and len(functions) <= 8
    found = fields(header, "struct AlgorithmEntry")
    assert "std::string_view name" in found and len(found) <= 12


def test_what_is_counted():
    text = "class Other {};\nclass A final : public B {\n  virtual ~A() = default;  // virtual int no();\n  virtual std::vector<int> f(int) = 0;\n  int g();\n};"
    assert virtual_functions(text, "class A") == ["~A", "f"]
    text = "struct A {\n  struct B {\n    int x = 0;\n  };\n  B b{};\n  int (*f)(int) = [](int) { return 1; };\n  int c = 2;\n};"
    assert fields(text, "struct A") == ["B b", "int = []", "int c = 2"]


# Groups that change, timers and reports are the business of what these are made of.
PAPERS = ["sync.cc", "gossip/push_sum.cc", "gossip/d_psgd.cc", "gossip/choco.cc", "local/local_steps.cc"]
BUSINESS = re.compile(r"\b(?:Timer|StepReport|Elastic|Following|is_new|take_over|sync_after_change|set_weight|catch_up|roll)\b")


def test_algorithms_read_like_their_papers(root):
    for name in PAPERS:
        assert BUSINESS.findall((root / "sotto/algorithm" / name).read_text()) == [], name
    assert BUSINESS.search("const Timer total;")
