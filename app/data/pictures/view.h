#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "app/data/pictures/picture.h"
#include "sotto/core/random.h"
#include "sotto/kernels/blend.h"

namespace sotto {

// One axis of a view: the pixels [begin, end) are resized to `outputs` pixels, of which View::side are used, from
// `first` on.
struct Stretch {
  std::size_t begin, end, outputs, first;
};

// How a picture, when it is upright, becomes a square image of side*side pixels.
struct View {
  std::size_t side;
  Stretch across, down;
  bool mirrored = false;
};

// The middle of the picture after its shorter side was resized to 256/224 of `side`, as torchvision's Resize and
// CenterCrop.
View middle_view(std::size_t width, std::size_t height, std::size_t side);

// A random part with .08 to 1 of the area and a ratio of sides from 3/4 to 4/3, mirrored with probability 1/2. This is
// torchvision's RandomResizedCrop with RandomHorizontalFlip (Szegedy et al., CVPR 2015).
View random_view(std::size_t width, std::size_t height, std::size_t side, Philox& random);

// Draws views of pictures. Resizing is bilinear with antialias, across and then down, and has the same bits as Pillow
// 10.4 (later versions resize tall pictures down first, which differs by rounding). A picture is decoded at reduced
// size if that leaves at least as many pixels as the image needs; its view then differs a little from Pillow's.
class ViewReader {
 public:
  // The side*side pixels of a view of the picture, of four bytes each as in Pixels; valid until the next call.
  // FileError, without the file's name, when the picture is damaged.
  std::span<const std::uint8_t> read(Picture& picture, const View& view);

 private:
  // The weighted means that resize a stretch. Indices are in pixels of the stored, reduced picture.
  struct Axis {
    std::vector<kernels::Taps> taps;
    std::vector<std::int32_t> weights;
    std::size_t begin = 0, end = 0;  // all pixels that they need
  };
  void resize(const Stretch& stretch, std::size_t side, std::size_t reduction, Axis& axis);
  void blend(std::size_t side);

  Axis across_, down_;
  std::vector<double> shares_;
  Pixels pixels_;
  std::vector<std::uint8_t> narrowed_, stored_, upright_;
};

}  // namespace sotto
