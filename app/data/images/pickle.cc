#include "app/data/images/pickle.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <optional>
#include <unordered_map>
#include <utility>

#include "app/data/unpack.h"
#include "sotto/core/error.h"

namespace sotto {
namespace {

enum class Kind : std::uint8_t { none, boolean, integer, bytes, list, dict, tuple, global, array, dtype };

constexpr std::size_t most_objects = std::size_t{1} << 20;  // CIFAR-100 has 150,000

using Reference = std::uint32_t;  // of an object, by its number

struct Object {
  Kind kind = Kind::none;
  std::int64_t number = 0;             // the value of an integer or boolean
  std::span<const std::byte> bytes{};  // the content of bytes and arrays, and the name of a global
  std::vector<Reference> items{};      // elements; keys and values of a dict in turns; the shape of an array
};

}  // namespace

// The stack machine that a pickle is written for. Objects are never freed before it is, and refer to each other by
// number, so that a list may contain itself.
class Pickle::Machine {
 public:
  Machine(const std::filesystem::path& path, std::span<const std::byte> bytes) : path_(path), bytes_(bytes) {
    while (!root_) step();
    if (at_ != bytes_.size()) fail("surplus bytes after the end of the pickle");
    if (objects_[*root_].kind != Kind::dict) fail("the pickle is no dictionary");
  }

  const Object& object(Reference reference) const { return objects_[reference]; }

  // The value of a key of the dictionary. The last one counts if there are several, as in Python.
  const Object& value(std::string_view key) const {
    const auto& items = objects_[*root_].items;
    for (std::size_t i = items.size(); i > 0; i -= 2) {
      const Object& found = objects_[items[i - 2]];
      if (found.kind == Kind::bytes && as_text(found.bytes) == key) return objects_[items[i - 1]];
    }
    throw FileError(fmt::format("{}: the pickled dictionary has no key {}", path_.string(), key));
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw FileError(fmt::format("{}: byte {}: {}", path_.string(), opcode_at_, what));
  }

  std::span<const std::byte> take(std::uint64_t count) {
    if (count > bytes_.size() - at_) fail("truncated");
    const auto taken = bytes_.subspan(at_, count);
    at_ += count;
    return taken;
  }
  template <class T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
    return value;
  }
  std::span<const std::byte> line() {
    const std::size_t first = at_;
    while (take(1)[0] != std::byte{'\n'}) {
    }
    return bytes_.subspan(first, at_ - 1 - first);
  }

  void push(Object object) {
    if (objects_.size() == most_objects) fail("too many objects");
    stack_.push_back(static_cast<Reference>(objects_.size()));
    objects_.push_back(std::move(object));
  }
  void push_integer(std::int64_t number) { push({.kind = Kind::integer, .number = number}); }
  void push_bytes(std::uint32_t count) { push({.kind = Kind::bytes, .bytes = take(count)}); }

  // Objects below the last mark belong to an outer object that is not finished; opcodes cannot reach them.
  std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  Reference top() const {
    if (stack_.size() <= floor()) fail("an operand is missing");
    return stack_.back();
  }
  Reference pop() {
    const Reference last = top();
    stack_.pop_back();
    return last;
  }
  std::vector<Reference> pop_many(std::size_t count) {
    if (stack_.size() - floor() < count) fail("an operand is missing");
    std::vector<Reference> items(stack_.end() - static_cast<std::ptrdiff_t>(count), stack_.end());
    stack_.resize(stack_.size() - count);
    return items;
  }
  std::vector<Reference> pop_to_mark() {
    if (marks_.empty()) fail("a mark is missing");
    auto items = pop_many(stack_.size() - marks_.back());
    marks_.pop_back();
    return items;
  }
  void extend(Kind kind, const std::vector<Reference>& items) {
    Object& target = objects_[top()];
    if (target.kind != kind) fail("items for an object that is neither list nor dictionary");
    if (kind == Kind::dict && items.size() % 2 != 0) fail("a key without a value");
    target.items.insert(target.items.end(), items.begin(), items.end());
  }

  void memorise(std::uint64_t key) { memo_[key] = top(); }
  void recall(std::uint64_t key) {
    const auto found = memo_.find(key);
    if (found == memo_.end()) fail(fmt::format("there is no object {} in its memory", key));
    stack_.push_back(found->second);
  }

  void push_global() {
    const auto first = line();
    const auto second = line();
    const std::string name = fmt::format("{}.{}", as_text(first), as_text(second));
    if (name == "numpy.core.multiarray._reconstruct" || name == "numpy._core.multiarray._reconstruct" ||
        name == "numpy.ndarray" || name == "numpy.dtype" || name == "_codecs.encode" || name == "__builtin__.bytes") {
      push({.kind = Kind::global, .bytes = second});
      return;
    }
    fail("the pickle wants to call something that is no NumPy array; this reader calls nothing");
  }

  void reduce() {
    const Object& arguments = objects_[pop()];
    const Object& function = objects_[pop()];
    if (function.kind != Kind::global || arguments.kind != Kind::tuple) fail("a call of what is no function");
    const std::string_view name = as_text(function.bytes);
    if (name == "bytes" && arguments.items.empty()) return push({.kind = Kind::bytes});
    if (arguments.items.empty()) fail("a call of what is no function");
    const Object& first = objects_[arguments.items[0]];
    if (name == "encode") {
      push({.kind = Kind::bytes, .bytes = latin1(arguments)});
    } else if (name == "_reconstruct" && first.kind == Kind::global && as_text(first.bytes) == "ndarray") {
      push({.kind = Kind::array});
    } else if (name == "dtype" && first.kind == Kind::bytes && as_text(first.bytes) == "u1") {
      push({.kind = Kind::dtype});
    } else {
      fail("an array of other elements than bytes (u1)");
    }
  }

  // Protocol 2 has no type for bytes. Python 3 writes them as encode(text, "latin1"), where each character of the text
  // is a byte, and empty bytes as bytes().
  std::span<const std::byte> latin1(const Object& arguments) {
    const auto part = [&](std::size_t i) -> const Object& { return objects_[arguments.items[i]]; };
    if (arguments.items.size() != 2 || part(0).kind != Kind::bytes || as_text(part(1).bytes) != "latin1") {
      fail("a call of encode() that makes no bytes of a text in latin1");
    }
    std::vector<std::byte>& made = decoded_.emplace_back();
    const std::span<const std::byte> text = part(0).bytes;
    made.reserve(text.size());
    for (std::size_t i = 0; i < text.size(); ++i) {
      const auto first = std::to_integer<unsigned>(text[i]);
      const unsigned second = first < 0x80 || i + 1 == text.size() ? 0 : std::to_integer<unsigned>(text[++i]);
      if (first >= 0x80 && ((first != 0xC2 && first != 0xC3) || (second & 0xC0U) != 0x80)) {
        fail("a text with a character that is not in latin1");
      }
      made.push_back(static_cast<std::byte>(first < 0x80 ? first : (first << 6 | (second & 0x3FU)) & 0xFFU));
    }
    return made;
  }

  // The state of an array is (version, shape, type, whether the first dimension is fastest, values).
  void build() {
    const Object& state = objects_[pop()];
    Object& target = objects_[top()];
    if (target.kind == Kind::dtype && state.kind == Kind::tuple) return;
    if (target.kind != Kind::array || state.kind != Kind::tuple || state.items.size() != 5) {
      fail("the state of what is no array");
    }
    const auto part = [&](std::size_t i) -> const Object& { return objects_[state.items[i]]; };
    if (part(1).kind != Kind::tuple || part(2).kind != Kind::dtype || part(3).kind != Kind::boolean ||
        part(4).kind != Kind::bytes) {
      fail("an array whose state has other types than NumPy's");
    }
    if (part(3).number != 0) fail("an array whose first dimension is the fastest");
    const std::span<const std::byte> values = part(4).bytes;
    std::uint64_t elements = 1;
    for (const Reference side : part(1).items) {
      const Object& length = objects_[side];
      if (length.kind != Kind::integer || length.number < 0) fail("an array with an impossible shape");
      // Stops as soon as the product exceeds the file, before it can overflow: a length has 31 bits.
      elements = std::min<std::uint64_t>(elements * static_cast<std::uint64_t>(length.number), bytes_.size() + 1);
    }
    if (elements != values.size()) fail(fmt::format("an array of {} bytes, which its shape denies", values.size()));
    target.items = part(1).items;
    target.bytes = values;
  }

  void step() {
    opcode_at_ = at_;
    const auto opcode = std::to_integer<std::uint8_t>(take(1)[0]);
    switch (opcode) {
      case 0x80:  // PROTO
        if (const int protocol = number<std::uint8_t>(); protocol != 2 && protocol != 3) {
          fail(fmt::format("protocol {} of pickle; this reader knows 2 and 3: pickle.dump(.., protocol=2)", protocol));
        }
        return;
      case '(': return marks_.push_back(stack_.size());
      case '.': root_ = pop(); return;
      case 'N': return push({});
      case 0x88: return push({.kind = Kind::boolean, .number = 1});
      case 0x89: return push({.kind = Kind::boolean, .number = 0});
      case 'K': return push_integer(number<std::uint8_t>());
      case 'M': return push_integer(number<std::uint16_t>());
      case 'J': return push_integer(number<std::int32_t>());
      case 'U':                                              // SHORT_BINSTRING
      case 'C': return push_bytes(number<std::uint8_t>());   // SHORT_BINBYTES
      case 'T':                                              // BINSTRING
      case 'B':                                              // BINBYTES
      case 'X': return push_bytes(number<std::uint32_t>());  // BINUNICODE
      case '}': return push({.kind = Kind::dict});
      case ']': return push({.kind = Kind::list});
      case ')': return push({.kind = Kind::tuple});
      case 0x85:
      case 0x86:
      case 0x87: return push({.kind = Kind::tuple, .items = pop_many(opcode - 0x84U)});
      case 't': return push({.kind = Kind::tuple, .items = pop_to_mark()});
      case 'a': return extend(Kind::list, pop_many(1));
      case 'e': return extend(Kind::list, pop_to_mark());
      case 's': return extend(Kind::dict, pop_many(2));
      case 'u': return extend(Kind::dict, pop_to_mark());
      case 'q': return memorise(number<std::uint8_t>());
      case 'r': return memorise(number<std::uint32_t>());
      case 'h': return recall(number<std::uint8_t>());
      case 'j': return recall(number<std::uint32_t>());
      case 'c': return push_global();
      case 'R': return reduce();
      case 'b': return build();
      default: fail(fmt::format("opcode {:#04x}, which data of this kind does not need", opcode));
    }
  }

  const std::filesystem::path& path_;
  std::span<const std::byte> bytes_;
  std::size_t at_ = 0;
  std::size_t opcode_at_ = 0;
  std::vector<Object> objects_;
  std::deque<std::vector<std::byte>> decoded_;  // objects refer to these
  std::vector<Reference> stack_;
  std::vector<std::size_t> marks_;
  std::unordered_map<std::uint64_t, Reference> memo_;
  std::optional<Reference> root_;
};

Pickle::Pickle(std::filesystem::path path, std::span<const std::byte> bytes)
    : path_(std::move(path)), machine_(std::make_unique<Machine>(path_, bytes)) {}
Pickle::~Pickle() = default;

std::vector<std::int64_t> Pickle::integers(std::string_view key) const {
  const Object& list = machine_->value(key);
  if (list.kind != Kind::list) throw FileError(fmt::format("{}: {} is no list", path_.string(), key));
  std::vector<std::int64_t> numbers;
  for (const Reference item : list.items) {
    const Object& number = machine_->object(item);
    if (number.kind != Kind::integer) {
      throw FileError(fmt::format("{}: item {} of {} is no integer", path_.string(), numbers.size(), key));
    }
    numbers.push_back(number.number);
  }
  return numbers;
}

Pickle::Array Pickle::array(std::string_view key) const {
  const Object& array = machine_->value(key);
  if (array.kind != Kind::array || array.items.empty()) {
    throw FileError(fmt::format("{}: {} is no array", path_.string(), key));
  }
  Array result{{}, array.bytes};
  for (const Reference side : array.items) result.shape.push_back(machine_->object(side).number);
  return result;
}

}  // namespace sotto
