#include "app/data/made/digit_strokes.h"

#include <algorithm>

namespace sotto {
namespace {

constexpr bool corner = true;

constexpr Knot oval[] = {{.52F, .00F}, {.30F, .12F}, {.20F, .48F}, {.28F, .86F}, {.50F, 1.0F},
                         {.72F, .86F}, {.80F, .48F}, {.71F, .11F}, {.52F, .00F}};
constexpr Knot crossed_oval[] = {{.66F, .10F}, {.47F, .02F}, {.28F, .20F}, {.21F, .55F}, {.32F, .92F}, {.52F, .98F},
                                 {.74F, .78F}, {.78F, .40F}, {.66F, .10F}, {.46F, .01F}, {.36F, .07F}};
constexpr Knot open_oval[] = {{.42F, .03F}, {.24F, .24F}, {.20F, .60F}, {.34F, .95F}, {.58F, .97F},
                              {.77F, .68F}, {.77F, .30F}, {.62F, .05F}, {.48F, .00F}};
constexpr Way zero[] = {{4, {oval}}, {3, {crossed_oval}}, {2, {open_oval}}};

constexpr Knot bar[] = {{.50F, .00F}, {.50F, .50F}, {.50F, 1.0F}};
constexpr Knot bent_bar[] = {{.54F, .00F}, {.48F, .35F}, {.50F, .70F}, {.52F, 1.0F}};
constexpr Knot flagged_bar[] = {{.32F, .24F}, {.44F, .14F}, {.54F, .00F, corner}, {.54F, .50F}, {.53F, 1.0F}};
constexpr Knot foot[] = {{.30F, 1.0F}, {.52F, .99F}, {.74F, .98F}};
constexpr Way one[] = {{4, {bar}}, {2, {bent_bar}}, {3, {flagged_bar}}, {1.5F, {flagged_bar, foot}}};

constexpr Knot swan[] = {{.22F, .24F}, {.34F, .04F},         {.58F, .01F}, {.74F, .20F}, {.66F, .46F},
                         {.42F, .76F}, {.20F, .98F, corner}, {.50F, .97F}, {.82F, .97F}};
constexpr Knot looped_swan[] = {{.24F, .18F}, {.44F, .01F}, {.68F, .10F}, {.70F, .34F}, {.52F, .64F}, {.32F, .90F},
                                {.18F, .96F}, {.15F, .84F}, {.30F, .79F}, {.52F, .93F}, {.70F, .99F}, {.86F, .90F}};
constexpr Knot wavy_swan[] = {{.20F, .20F},         {.40F, .02F}, {.66F, .06F}, {.72F, .30F}, {.52F, .62F},
                              {.20F, .93F, corner}, {.38F, .86F}, {.60F, .97F}, {.82F, .92F}};
constexpr Way two[] = {{4, {swan}}, {3, {looped_swan}}, {2, {wavy_swan}}};

constexpr Knot bows[] = {{.22F, .13F}, {.44F, .00F}, {.70F, .10F}, {.68F, .34F}, {.42F, .46F, corner},
                         {.70F, .56F}, {.78F, .78F}, {.56F, .99F}, {.20F, .90F}};
constexpr Knot flat_three[] = {{.22F, .04F}, {.50F, .02F}, {.76F, .03F, corner}, {.60F, .22F}, {.44F, .40F, corner},
                               {.72F, .50F}, {.78F, .76F}, {.54F, .99F},         {.18F, .92F}};
constexpr Knot looped_bows[] = {{.24F, .10F}, {.48F, .00F}, {.70F, .14F}, {.62F, .38F}, {.42F, .46F}, {.38F, .40F},
                                {.50F, .44F}, {.74F, .60F}, {.74F, .84F}, {.48F, 1.0F}, {.20F, .88F}};
constexpr Way three[] = {{4, {bows}}, {1.5F, {flat_three}}, {2, {looped_bows}}};

constexpr Knot open_angle[] = {{.30F, .04F}, {.26F, .30F}, {.20F, .56F, corner}, {.52F, .55F}, {.84F, .52F}};
constexpr Knot right_stem[] = {{.68F, .06F}, {.66F, .50F}, {.64F, 1.0F}};
constexpr Knot open_bowl[] = {{.26F, .00F}, {.20F, .30F}, {.28F, .52F}, {.50F, .52F}, {.72F, .40F}};
constexpr Knot long_stem[] = {{.76F, .00F}, {.72F, .45F}, {.68F, 1.0F}};
constexpr Knot closed_angle[] = {{.62F, .00F}, {.40F, .32F}, {.16F, .62F, corner}, {.52F, .63F}, {.86F, .61F}};
constexpr Knot top_stem[] = {{.63F, .00F}, {.63F, .50F}, {.62F, 1.0F}};
constexpr Way four[] = {
    {4, {open_angle, right_stem}}, {2.5F, {open_bowl, long_stem}}, {2.5F, {closed_angle, top_stem}}};

constexpr Knot belly[] = {{.32F, .03F}, {.29F, .24F}, {.27F, .46F, corner}, {.50F, .37F},
                          {.74F, .50F}, {.76F, .78F}, {.50F, .99F},         {.20F, .91F}};
constexpr Knot cap[] = {{.32F, .03F}, {.55F, .02F}, {.80F, .00F}};
constexpr Knot whole_five[] = {{.78F, .01F}, {.55F, .03F}, {.34F, .04F, corner}, {.30F, .24F}, {.26F, .44F, corner},
                               {.52F, .38F}, {.74F, .54F}, {.72F, .82F},         {.46F, 1.0F}, {.20F, .92F}};
constexpr Knot snake[] = {{.80F, .02F}, {.52F, .03F}, {.32F, .14F}, {.32F, .34F}, {.56F, .48F},
                          {.72F, .66F}, {.66F, .90F}, {.42F, 1.0F}, {.20F, .92F}};
constexpr Way five[] = {{4, {belly, cap}}, {3, {whole_five}}, {1.5F, {snake}}};

constexpr Knot curved_six[] = {{.64F, .00F}, {.40F, .18F}, {.25F, .52F}, {.26F, .82F}, {.46F, 1.0F},
                               {.70F, .88F}, {.72F, .66F}, {.54F, .54F}, {.32F, .66F}, {.27F, .80F}};
constexpr Knot straight_six[] = {{.58F, .00F}, {.42F, .26F}, {.28F, .58F}, {.27F, .86F}, {.48F, 1.0F},
                                 {.68F, .88F}, {.66F, .70F}, {.48F, .64F}, {.30F, .76F}};
constexpr Knot round_six[] = {{.70F, .06F}, {.50F, .04F}, {.30F, .24F}, {.22F, .62F}, {.32F, .94F},
                              {.56F, .98F}, {.76F, .78F}, {.68F, .52F}, {.46F, .48F}, {.26F, .64F}};
constexpr Way six[] = {{4, {curved_six}}, {3, {straight_six}}, {2, {round_six}}};

constexpr Knot angle[] = {{.20F, .05F}, {.50F, .04F}, {.80F, .03F, corner}, {.62F, .34F}, {.50F, .66F}, {.42F, 1.0F}};
constexpr Knot serif_angle[] = {{.20F, .20F}, {.22F, .05F, corner}, {.50F, .06F}, {.80F, .02F, corner},
                                {.64F, .36F}, {.54F, .68F},         {.50F, 1.0F}};
constexpr Knot curved_angle[] = {{.18F, .14F}, {.36F, .04F}, {.62F, .10F}, {.80F, .04F},
                                 {.74F, .26F}, {.56F, .60F}, {.44F, 1.0F}};
constexpr Knot cross_bar[] = {{.36F, .54F}, {.56F, .51F}, {.78F, .48F}};
constexpr Way seven[] = {{4, {angle}}, {2, {angle, cross_bar}}, {1.5F, {serif_angle}}, {2, {curved_angle}}};

constexpr Knot double_loop[] = {{.72F, .13F}, {.52F, .00F}, {.28F, .12F}, {.36F, .36F}, {.62F, .56F}, {.76F, .80F},
                                {.52F, 1.0F}, {.26F, .84F}, {.36F, .58F}, {.60F, .38F}, {.72F, .16F}};
constexpr Knot mirrored_loop[] = {{.30F, .12F}, {.52F, .00F}, {.72F, .16F}, {.58F, .40F}, {.34F, .62F}, {.26F, .86F},
                                  {.50F, 1.0F}, {.74F, .84F}, {.64F, .60F}, {.40F, .40F}, {.28F, .18F}};
constexpr Knot upper_ring[] = {{.50F, .46F}, {.32F, .36F}, {.30F, .12F}, {.50F, .00F},
                               {.70F, .12F}, {.68F, .36F}, {.50F, .46F}};
constexpr Knot lower_ring[] = {{.50F, .46F}, {.28F, .60F}, {.26F, .86F}, {.50F, 1.0F},
                               {.76F, .86F}, {.72F, .60F}, {.50F, .46F}};
constexpr Way eight[] = {{4, {double_loop}}, {1.5F, {mirrored_loop}}, {2, {upper_ring, lower_ring}}};

constexpr Knot stem_nine[] = {{.71F, .14F}, {.52F, .01F},         {.30F, .12F}, {.27F, .36F}, {.46F, .48F},
                              {.66F, .36F}, {.74F, .10F, corner}, {.71F, .50F}, {.66F, 1.0F}};
constexpr Knot curved_nine[] = {{.70F, .16F}, {.50F, .00F}, {.28F, .14F}, {.30F, .40F}, {.50F, .46F},
                                {.70F, .28F}, {.74F, .46F}, {.68F, .78F}, {.48F, .99F}, {.24F, .92F}};
constexpr Knot small_nine[] = {{.66F, .08F},         {.46F, .02F}, {.30F, .18F}, {.36F, .38F}, {.56F, .36F},
                               {.69F, .12F, corner}, {.66F, .44F}, {.56F, .74F}, {.46F, 1.0F}};
constexpr Way nine[] = {{4, {stem_nine}}, {2, {curved_nine}}, {2.5F, {small_nine}}};

constexpr std::array<std::span<const Way>, 10> digits{zero, one, two, three, four, five, six, seven, eight, nine};

static_assert(std::ranges::all_of(digits, [](std::span<const Way> ways) {
  return std::ranges::all_of(ways, [](const Way& way) {
    return way.strokes[0].size() >= 2 && std::max(way.strokes[0].size(), way.strokes[1].size()) <= max_knots;
  });
}));

}  // namespace

std::span<const Way> ways_of_writing(int digit) { return digits.at(static_cast<std::size_t>(digit)); }

}  // namespace sotto
