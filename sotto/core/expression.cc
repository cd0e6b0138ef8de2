#include "sotto/core/expression.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "sotto/core/error.h"

namespace sotto {
namespace {

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool is_printable(char c) { return c >= 0x20 && c <= 0x7E; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_name_part(char c) { return is_letter(c) || (c >= '0' && c <= '9') || c == '-'; }
char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

constexpr std::size_t longest_shown = 200;

// The text with a caret under `position`. A long text is cut to the part around `position`. Characters that a terminal
// may not show in one column are replaced by a space or `?`.
std::string with_caret(std::string_view text, std::size_t position) {
  constexpr std::string_view left_out = "...";
  std::string shown(text);
  if (text.size() > longest_shown) {
    const std::size_t begin = std::min(position - std::min(position, longest_shown / 2), text.size() - longest_shown);
    shown = text.substr(begin, longest_shown);
    if (begin + longest_shown < text.size()) shown += left_out;
    if (begin > 0) shown.insert(0, left_out);
    position = position - begin + (begin > 0 ? left_out.size() : 0);
  }
  for (char& c : shown) {
    if (!is_printable(c)) c = is_space(c) ? ' ' : '?';
  }
  return fmt::format("\n  {}\n  {}^", shown, std::string(position, ' '));
}

class Parser {
 public:
  Parser(std::string_view option, std::string_view text) : option_(option), text_(text) {}

  Expression parse() {
    require_printable();
    if (at_end()) throw ConfigError(named(option_) + ": it is empty; leave it out, or say what it is to be");
    at_ = 0;
    Expression expression{std::string(option_), std::string(text_), {}};
    do {
      expression.calls.push_back(call());
    } while (accept('|'));
    if (!at_end()) fail(at_, "expected `|` or the end" + found());
    return expression;
  }

  Expression parse_arguments(std::size_t begin) {
    require_printable();
    Call call{std::string(text_), {}, 0};
    at_ = begin;
    do {
      call.arguments.push_back(argument());
    } while (accept(','));
    if (!at_end()) fail(at_, "expected `,` or the end" + found());
    return {std::string(option_), std::string(text_), {std::move(call)}};
  }

 private:
  void require_printable() const {
    for (std::size_t i = 0; i < text_.size(); ++i) {
      if (!is_printable(text_[i]) && !is_space(text_[i])) {
        fail(i, fmt::format("byte 0x{:02x} is not allowed", static_cast<unsigned char>(text_[i])));
      }
    }
  }

  Call call() {
    skip_space();
    Call call;
    call.position = at_;
    call.name = name();
    if (!accept('(')) return call;
    if (accept(')')) return call;
    do {
      call.arguments.push_back(argument());
    } while (accept(','));
    if (!accept(')')) fail(at_, "expected `,` or `)`" + found());
    return call;
  }

  Argument argument() {
    skip_space();
    Argument argument;
    argument.position = at_;
    if (const std::size_t equals = find_equals(); equals != std::string_view::npos) {
      argument.key = name();
      at_ = equals + 1;
    }
    skip_space();
    argument.value_position = at_;
    argument.value = value();
    if (argument.value.empty() && argument.key.empty()) fail(argument.position, "expected an argument" + found());
    return argument;
  }

  // The position of the `=` of `key=` if an argument with a key starts here, else npos.
  std::size_t find_equals() const {
    if (at_ == text_.size() || !is_letter(text_[at_])) return std::string_view::npos;
    std::size_t i = at_;
    while (i < text_.size() && is_name_part(text_[i])) ++i;
    while (i < text_.size() && is_space(text_[i])) ++i;
    return i < text_.size() && text_[i] == '=' ? i : std::string_view::npos;
  }

  std::string name() {
    if (at_ == text_.size() || !is_letter(text_[at_])) fail(at_, "expected a name" + found());
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_name_part(text_[at_])) ++at_;
    return std::string(text_.substr(begin, at_ - begin));
  }

  // Reads up to the `,` or `)` that ends the argument. Inside parentheses of the value, neither ends it.
  std::string value() {
    const std::size_t begin = at_;
    std::vector<std::size_t> open;
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (open.empty() && (c == ',' || c == ')')) break;
      if (open.empty() && (c == '|' || c == '=')) {
        fail(at_, "expected `,` or `)`" + found() + (c == '|' ? "; a value with `|` wants parentheses" : ""));
      }
      if (c == '(') open.push_back(at_);
      if (c == ')') open.pop_back();
    }
    if (!open.empty()) fail(open.back(), "`(` is never closed");
    std::size_t end = at_;
    while (end > begin && is_space(text_[end - 1])) --end;
    return std::string(text_.substr(begin, end - begin));
  }

  void skip_space() {
    while (at_ < text_.size() && is_space(text_[at_])) ++at_;
  }
  bool at_end() {
    skip_space();
    return at_ == text_.size();
  }
  bool accept(char c) {
    skip_space();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  std::string found() const {
    return at_ == text_.size() ? ", found the end" : fmt::format(", found `{}`", text_[at_]);
  }
  [[noreturn]] void fail(std::size_t position, const std::string& message) const {
    throw ConfigError(fmt::format("{}: {}{}", named(option_), message, with_caret(text_, position)));
  }

  std::string_view option_;
  std::string_view text_;
  std::size_t at_ = 0;
};

// Edit distance without regard to case. Swapping two neighbours is one edit (optimal string alignment).
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const bool same = lower(a[i - 1]) == lower(b[j - 1]);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (same ? 0 : 1)});
      if (i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) && lower(a[i - 2]) == lower(b[j - 1])) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    std::swap(before, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

}  // namespace

Expression parse_expression(std::string_view option, std::string_view text) { return Parser(option, text).parse(); }

Expression parse_arguments(std::string_view option, std::string_view text, std::size_t begin) {
  return Parser(option, text).parse_arguments(begin);
}

std::string_view text_of(const Expression& expression, const Call& call) {
  const std::string_view text = expression.text;
  std::size_t end = call.position + call.name.size();
  std::size_t next = end;
  while (next < text.size() && is_space(text[next])) ++next;
  if (next < text.size() && text[next] == '(') {
    std::size_t depth = 0;
    do {
      depth += text[next] == '(' ? 1U : 0U;
      depth -= text[next] == ')' ? 1U : 0U;
      ++next;
    } while (depth > 0);
    end = next;
  }
  return text.substr(call.position, end - call.position);
}

Place place_of(const Expression& expression, const Call& call) {
  return {expression.option, expression.text, std::string(text_of(expression, call)), call.position};
}

void fail_at(const Place& place, const std::string& message) {
  std::string call = place.call;
  if (call.size() > longest_shown) call = call.substr(0, longest_shown) + "...";
  throw ConfigError(
      fmt::format("{}: {}{}", named(place.option, call), message, with_caret(place.text, place.position)));
}

void fail_at(const Expression& expression, const Call& call, std::size_t position, const std::string& message) {
  Place place = place_of(expression, call);
  place.position = position;
  fail_at(place, message);
}

std::string nearest_name(std::string_view name, std::span<const std::string_view> known) {
  constexpr std::size_t longest = 64;  // longer than any known name
  if (name.size() > longest) return "";
  std::string_view nearest;
  std::size_t least = SIZE_MAX;
  for (const std::string_view candidate : known) {
    const std::size_t distance = edit_distance(name, candidate);
    const std::size_t allowed = std::max<std::size_t>(1, std::min(name.size(), candidate.size()) / 3);
    if (distance <= allowed && distance < least) {
      least = distance;
      nearest = candidate;
    }
  }
  const std::size_t letters = name.size() - std::min(name.find_first_not_of('-'), name.size());
  if (nearest.empty() && letters > 2) {  // its beginning: `densenet` for `densenet-bc`
    const auto longer = std::ranges::find_if(known, [&](std::string_view one) { return one.starts_with(name); });
    if (longer != known.end()) nearest = *longer;
  }
  return std::string(nearest);
}

std::string unknown_name(std::string_view kind, std::string_view name, std::span<const std::string_view> known) {
  const std::string nearest = nearest_name(name, known);
  const std::string hint = nearest.empty() ? "" : fmt::format(" did you mean `{}`?", nearest);
  const std::string_view more = name.size() > longest_shown ? "..." : "";
  return fmt::format("unknown {} `{}{}`;{} known: {}", kind, name.substr(0, longest_shown), more, hint,
                     fmt::join(known, ", "));
}

}  // namespace sotto
