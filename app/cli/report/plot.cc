#include "app/cli/report/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "app/report/html.h"

namespace sotto {
namespace {

constexpr double width = 520, height = 400;  // of one plot, margins included
constexpr double left = 72, right = 24, top = 40, bottom = 56;

class Drawing {
 public:
  Drawing(const Plot& plot, double begin) : plot_(plot), begin_(begin), x_(plot.log_x), y_(plot.log_y) {
    for (const PlotSeries& series : plot.series) {
      for (const PlotPoint& point : series.points) {
        x_.cover(point.x);
        y_.cover(point.y);
      }
    }
    x_.widen(0.06);
    y_.widen(0.06);
  }

  std::string svg() {
    frame();
    for (std::size_t s = 0; s < plot_.series.size(); ++s) draw(s);
    return std::move(text_);
  }

 private:
  double x_at(double value) const { return begin_ + left + x_.share(value) * (width - left - right); }
  double y_at(double value) const { return height - bottom - y_.share(value) * (height - top - bottom); }

  void line(double x1, double y1, double x2, double y2, std::string_view colour) {
    text_ += fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\"/>\n", x1, y1, x2,
                         y2, colour);
  }
  void write(double x, double y, std::string_view anchor, std::string_view words, std::string_view more = "") {
    text_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}>{}</text>\n", x, y, anchor, more,
                         escaped(words));
  }

  void frame() {
    const double middle = begin_ + left + (width - left - right) / 2;
    for (const double tick : x_.ticks()) {
      line(x_at(tick), top, x_at(tick), height - bottom, "#e0e0e0");
      write(x_at(tick), height - bottom + 16, "middle", fmt::format("{:.4g}", tick));
    }
    for (const double tick : y_.ticks()) {
      line(begin_ + left, y_at(tick), begin_ + width - right, y_at(tick), "#e0e0e0");
      write(begin_ + left - 6, y_at(tick) + 4, "end", fmt::format("{:.4g}", tick));
    }
    line(begin_ + left, top, begin_ + left, height - bottom, "#404040");
    line(begin_ + left, height - bottom, begin_ + width - right, height - bottom, "#404040");
    write(middle, 24, "middle", plot_.title, " font-weight=\"bold\"");
    write(middle, height - 16, "middle", plot_.x_label);
    const double y = top + (height - top - bottom) / 2;
    const double x = begin_ + 16;
    write(x, y, "middle", plot_.y_label, fmt::format(" transform=\"rotate(-90 {:.1f} {:.1f})\"", x, y));
  }

  void draw(std::size_t s) {
    const PlotSeries& series = plot_.series[s];
    const std::string_view colour = plot_colours[s % plot_colours.size()];
    std::string path;
    std::string marks;
    for (const PlotPoint& point : series.points) {
      if (!x_.shows(point.x) || !y_.shows(point.y)) continue;
      const double x = x_at(point.x);
      const double y = y_at(point.y);
      path += fmt::format("{:.1f},{:.1f} ", x, y);
      marks += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\"/>\n", x, y, colour);
      if (!point.label.empty()) {
        marks += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", x + 6, y - 5, escaped(point.label));
      }
    }
    text_ += fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\"/>\n{}", path, colour,
                         marks);
    if (plot_.series.size() < 2) return;
    const double y = top + 14 + 16 * static_cast<double>(s);
    std::size_t longest = 0;
    for (const PlotSeries& each : plot_.series) longest = std::max(longest, each.name.size());
    // A letter is about 6 wide. Long names begin further to the left, over the curves if need be.
    const double room = std::clamp(22 + 6.0 * static_cast<double>(longest), 96.0, width - left - right);
    const double x = begin_ + width - right - room;
    line(x, y - 4, x + 16, y - 4, colour);
    write(x + 22, y, "start", series.name);
  }

  const Plot& plot_;
  double begin_;
  Axis x_, y_;
  std::string text_;
};

}  // namespace

bool Axis::shows(double value) const { return std::isfinite(value) && (!logarithmic_ || value > 0); }

void Axis::cover(double value) {
  if (!shows(value)) return;
  low_ = std::min(low_, scaled(value));
  high_ = std::max(high_, scaled(value));
}

void Axis::widen(double margin) {
  if (low_ > high_) low_ = high_ = 0;  // there are no values
  // Values that differ in rounding alone are one value: no ticks would fit between them.
  const bool apart = high_ - low_ > 1e-9 * (logarithmic_ ? 1 : std::max(std::abs(low_), std::abs(high_)));
  const double more = apart ? margin * (high_ - low_) : logarithmic_ ? 0.5 : std::max(std::abs(low_) / 2, 0.5);
  low_ -= more;
  high_ += more;
}

std::vector<double> Axis::ticks() const { return logarithmic_ && high_ - low_ > 0.7 ? decades() : steps(); }

double Axis::scaled(double value) const { return logarithmic_ ? std::log10(value) : value; }

// 1, 2 and 5 times powers of ten if these are few, otherwise powers of ten alone.
std::vector<double> Axis::decades() const {
  std::vector<double> found;
  const int apart = std::max(1, static_cast<int>((high_ - low_) / 6));
  for (int power = static_cast<int>(std::floor(low_)); power <= high_; power += apart) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      if (factor > 1 && high_ - low_ > 2.5) continue;
      const double value = factor * std::pow(10.0, power);
      if (scaled(value) >= low_ && scaled(value) <= high_) found.push_back(value);
    }
  }
  return found;
}

std::vector<double> Axis::steps() const {
  const double first = logarithmic_ ? std::pow(10.0, low_) : low_;
  const double last = logarithmic_ ? std::pow(10.0, high_) : high_;
  const double raw = (last - first) / 5;
  const double power = std::pow(10.0, std::floor(std::log10(raw)));
  const double step = power * (raw / power > 5 ? 10 : raw / power > 2 ? 5 : raw / power > 1 ? 2 : 1);
  std::vector<double> found;
  for (double n = std::ceil(first / step); n * step <= last; ++n) found.push_back(n * step + 0.0);  // -0 is 0
  return found;
}

std::string svg_document(double width, double height, std::string_view content) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" "
      "font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" "
      "fill=\"white\"/>\n{2}</svg>\n",
      width, height, content);
}

std::string to_svg(std::span<const Plot> plots) {
  const double total = width * static_cast<double>(plots.size());
  std::string content;
  for (std::size_t i = 0; i < plots.size(); ++i) content += Drawing(plots[i], width * static_cast<double>(i)).svg();
  return svg_document(total, height, content);
}

}  // namespace sotto
