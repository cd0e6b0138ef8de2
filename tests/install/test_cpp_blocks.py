"""C++ blocks of the documentation compile where the page says that they belong."""

import subprocess

import pytest

from documents import ROOT, blocks
from headers import described_headers, install_headers

pytestmark = pytest.mark.slow

AGGREGATOR = """
#include "sotto/aggregate/aggregator.h"
#include "sotto/aggregate/round.h"
#include "sotto/aggregate/round.h"
#include "sotto/core/timer.h"
namespace sotto {
class Named final : public Aggregator {
 public:
  explicit Named(AggregatorParts parts) : parts_(std::move(parts)), encoder_(parts_.codec) {}
  std::string_view name() const override { return "name"; }
  void visit_state(StateVisitor&) override {}
@BLOCK@
  AggregatorParts parts_;
  Encoder encoder_;
  Range whole_;
  Message own_;
  std::span<const Range> ranges{&whole_, 1};
  std::span<Message> messages{&own_, 1};
  std::unique_ptr<MessageReader> opened_ = parts_.codec->make_opened();
  MessageReader& sent = *opened_;
};
}
"""
# The header stands first, so that it is compiled by itself.
WITH_A_HEADER = """
#include "@HEADER@"
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>
namespace c10d { class ProcessGroup; }
namespace sotto { class Codec; class Communicator; class Layout; class Mailbox; class Message; class Topology; struct Range; }
void train();
void example(sotto::Communicator& ranks, std::vector<float>& gradient, std::vector<float>& vector, const sotto::Layout& layout,
             const sotto::Topology& topology, sotto::Codec& codec, const sotto::Range& whole, sotto::Message& message,
             sotto::Mailbox& mailbox, std::unique_ptr<sotto::Communicator>& inner, c10d::ProcessGroup& group) {
@BLOCK@
}
"""
OF_USERS = "docs/api.md"  # blocks of this page see installed headers only
TRANSPORT = """
#include <array>
#include "sotto/comm/transport.h"
namespace sotto {
@BLOCK@
}
"""
TRANSPORT_LINE = """
#include <array>
#include "sotto/comm/transport.h"
namespace sotto {
void require_NAME(const World&);
std::unique_ptr<Communicator> connect_NAME(const World&, const TransportOptions&);
std::string NAME_library();
constexpr std::array<std::string_view, 1> names_it_takes{"interface"};
constexpr std::array NAME_refuses{Transport::Refusal{"secret", "why it has none"}};
const std::array table{
@BLOCK@
};
}
"""
SURROUNDINGS = {"void average(": AGGREGATOR, "void require_NAME(": TRANSPORT, "Transport{": TRANSPORT_LINE}


def source_of(block):
    for header, its_blocks in described_headers().items():
        if block in its_blocks:
            return WITH_A_HEADER.replace("@HEADER@", header).replace("@BLOCK@", block.text)
    for start, text in SURROUNDINGS.items():
        if block.text.startswith(start):
            return text.replace("@BLOCK@", block.text)
    raise AssertionError("say in this test where the block is to stand")


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    return install_headers(tmp_path_factory.mktemp("include"))


@pytest.mark.parametrize("block", blocks("cpp"), ids=str)
def test_it_compiles(block, installed, tmp_path):
    path = tmp_path / "block.cc"
    path.write_text(source_of(block))
    include = installed if block.page == OF_USERS else ROOT
    result = subprocess.run(["c++", "-std=c++20", "-fsyntax-only", f"-I{include}", path], capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
