#include "sotto/codec/transform/sketch.h"

#include <fmt/format.h>

#include <cmath>

#include "sotto/codec/select/candidates.h"

namespace sotto {

Amount Amount::parse(std::string_view option, const std::string& text) {
  Amount amount;
  amount.value_ = parse_double(option, text);
  amount.is_share_ = text.ends_with('%');
  const bool whole = amount.value_ >= 1 && amount.value_ <= 4294967295.0 && amount.value_ == std::floor(amount.value_);
  const bool share = amount.value_ > 0 && amount.value_ <= 1;
  if (amount.is_share_ ? !share : !whole) {
    throw ConfigError(
        fmt::format("{} is a whole number, at least 1, or a share above 0 and up to 100%; not {}", option, text));
  }
  return amount;
}

std::size_t Amount::of(std::size_t n) const {
  return is_share_ ? share_of(value_, n) : std::min(n, static_cast<std::size_t>(value_));
}

namespace {

constexpr std::size_t chunk = kernels::sketch_window;  // elements that share a window of a row
constexpr std::size_t stretch = 256;                   // elements of a chunk that are processed together
constexpr std::size_t most_rows = 15;
constexpr std::size_t most_sheets = 2;

// Calls visit(begin, end) for the stretches of elements; `number` is the first element's number within its segment.
template <class Visit>
void for_stretches(std::size_t number, std::size_t elements, Visit visit) {
  for (std::size_t begin = 0; begin < elements;) {
    const std::size_t end = std::min(elements, begin + stretch - (number + begin) % stretch);
    visit(begin, end);
    begin = end;
  }
}

}  // namespace

std::string SketchOptions::problem() const {
  if (rows % 2 == 0) return "rows must be odd: there is one in the middle then";
  try {
    Amount::parse("columns", columns);
    Amount::parse("keep", keep);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

Sketch::Sketch(const SketchOptions& options, std::size_t sheets)
    : options_(options),
      sheets_(sheets),
      columns_(Amount::parse("columns", options.columns)),
      keep_(Amount::parse("keep", options.keep)) {}

Sketch::Shape Sketch::shape(std::size_t elements) const {
  if (elements == 0) return {};
  const std::size_t columns = columns_.of(elements);
  const std::size_t windows = (columns + chunk - 1) / chunk;
  const Shape shape{windows, columns / windows};
  return sheets_ * rows() * shape.row() < elements ? shape : Shape{};
}

Atoms Sketch::atoms(const Layout& /*layout*/, const Piece& piece) const {
  const Shape shape = this->shape(piece.range.size());
  const std::size_t cells = sheets_ * rows() * shape.row();
  return {shape.windows == 0 ? piece.range.size() : cells, 1, 0, piece.first};
}

// Returns where the window of these elements starts in the row. REQUIRES elements of one chunk.
std::size_t Sketch::find_places(const Shape& shape, std::size_t row, std::size_t number,
                                std::span<std::uint32_t> places) const {
  const auto seed = static_cast<std::uint64_t>(options_.seed);
  const std::uint64_t key = static_cast<std::uint64_t>(row) << 32 | number / chunk;
  const std::uint64_t columns = kernels::hash64(2 * key, seed);
  const std::uint64_t window = kernels::hash64(2 * key + 1, seed);
  const ElementStream stream{static_cast<std::uint32_t>(columns), static_cast<std::uint32_t>(columns >> 32)};
  kernels::sketch_places(stream, static_cast<std::uint32_t>(number), static_cast<std::uint32_t>(shape.width), places);
  return kernels::place_of(static_cast<std::uint32_t>(window >> 32), shape.windows) * shape.width;
}

void Sketch::forward(const Layout&, const Piece& piece, const Streams&, std::span<const float> values,
                     std::span<float> /*energies: the rows*/, std::span<float> cells) {
  const Shape shape = this->shape(values.size());
  if (shape.windows == 0) {
    std::ranges::copy(values, cells.begin());
    return;
  }
  std::ranges::fill(cells, 0.0F);
  pool().run(rows(), [&](std::size_t row) {
    std::array<std::uint32_t, stretch> room;
    for_stretches(piece.first, values.size(), [&](std::size_t begin, std::size_t end) {
      const auto places = std::span(room).first(end - begin);
      const std::size_t window = find_places(shape, row, piece.first + begin, places);
      add(values.subspan(begin, end - begin), places, &cells[row * shape.row() + window], rows() * shape.row());
    });
  });
}

// Estimates elements; `number` is the first one's number within its segment.
void Sketch::estimate(const Shape& shape, std::size_t number, std::span<const float> cells,
                      std::span<float> out) const {
  const std::size_t sheet = rows() * shape.row();
  std::array<std::uint32_t, stretch> room;
  std::array<float, most_sheets * most_rows * stretch> read;
  for_stretches(number, out.size(), [&](std::size_t begin, std::size_t end) {
    const std::size_t size = end - begin;
    const auto places = std::span(room).first(size);
    const auto all = std::span(read).first(sheets_ * rows() * size);
    for (std::size_t row = 0; row < rows(); ++row) {
      const std::size_t window = find_places(shape, row, number + begin, places);
      for (std::size_t s = 0; s < sheets_; ++s) {
        this->read(&cells[s * sheet + row * shape.row() + window], places,
                   all.subspan((s * rows() + row) * size, size));
      }
    }
    join(all, out.subspan(begin, size));
  });
}

void Sketch::add_inverse(const Layout&, const Piece& piece, std::span<const std::uint32_t> selected,
                         std::span<const float> rows, float scale, std::span<float> out) {
  const Shape shape = this->shape(out.size());
  if (shape.windows == 0) {
    for (std::size_t j = 0; j < selected.size(); ++j) out[selected[j]] += scale * rows[j];
    return;
  }
  auto cells = rows;
  if (selected.size() < sheets_ * this->rows() * shape.row()) {  // a selection kept only some cells
    const auto all = cells_.room(sheets_ * this->rows() * shape.row());
    std::ranges::fill(all, 0.0F);
    kernels::scatter_add(rows, selected, 0, all);
    cells = all;
  }
  const auto estimate_from = [&](std::size_t begin, std::span<float> some) {
    estimate(shape, piece.first + begin, cells, some);
  };
  const std::size_t keep = keep_.of(out.size());
  if (keep < out.size()) return largest_.add(pool(), Computed(estimate_from), keep, scale, out);
  pool().run_stretches(out.size(), pool().grain(), [&](std::size_t begin, std::size_t end) {
    std::array<float, chunk> room;
    for (; begin < end; begin += chunk) {
      const auto some = std::span(room).first(std::min(chunk, end - begin));
      estimate_from(begin, some);
      kernels::axpy(scale, some, out.subspan(begin, some.size()));
    }
  });
}

Contract Sketch::contract(const Layout& /*layout*/) const {
  // The error of the estimates depends on all elements that are not among the vector's largest.
  return {.kind = Contract::Kind::none,
          .omega = INFINITY,
          .delta = 0,
          .grain = columns_.is_share() && keep_.is_share() ? Contract::Grain::element : Contract::Grain::segment};
}

}  // namespace sotto
