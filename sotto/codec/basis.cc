#include "sotto/codec/basis.h"

#include <Eigen/Eigenvalues>
#include <cmath>
#include <iterator>
#include <numeric>

#include "sotto/codec/transform/dct.h"
#include "sotto/codec/transform/svd.h"
#include "sotto/core/error.h"
#include "sotto/kernels/reduce.h"

namespace sotto {
namespace {

// Computed from the smaller of A A^T and A^T A, in doubles.
std::vector<double> singular_values(std::span<const float> values, const MatrixShape& shape) {
  using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const Eigen::MatrixXd matrix = Eigen::Map<const Matrix>(values.data(), static_cast<Eigen::Index>(shape.rows),
                                                          static_cast<Eigen::Index>(shape.cols))
                                     .cast<double>();
  const Eigen::MatrixXd gram =
      shape.rows <= shape.cols ? Eigen::MatrixXd(matrix * matrix.transpose()) : matrix.transpose() * matrix;
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(gram, Eigen::EigenvaluesOnly);
  const Eigen::VectorXd ascending = solver.eigenvalues().cwiseMax(0.0).cwiseSqrt();
  return {std::reverse_iterator(ascending.data() + ascending.size()), std::reverse_iterator(ascending.data())};
}

}  // namespace

std::string_view BasisWeights::advice() const {
  if (norm == 0) return "any";
  if (singular <= entries && singular <= cosine) return "svd";
  return cosine < entries ? "dct" : "entries";
}

std::vector<BasisWeights> weigh_bases(const Layout& layout, std::span<const float> values, std::int64_t chunk) {
  DctOptions options;
  options.chunk = chunk;
  Dct dct(options);
  std::vector<BasisWeights> weights;
  std::vector<float> coefficients;
  for (std::size_t i = 0; i < layout.segments().size(); ++i) {
    const Segment& segment = layout.segments()[i];
    const Range range = segment.range();
    const auto tensor = values.subspan(range.begin, range.size());
    if (!kernels::all_finite(tensor)) throw NumericError(segment.name + " holds values that are not finite");
    BasisWeights& w = weights.emplace_back();
    if (tensor.empty()) continue;
    coefficients.resize(tensor.size());
    dct.forward(layout, {i, range, 0}, {}, tensor, coefficients, coefficients);
    const MatrixShape shape = matrix_shape(segment.shape);
    w.entries = kernels::sum_abs(tensor);
    w.cosine = kernels::sum_abs(coefficients);
    w.spectrum = singular_values(tensor, shape);
    w.singular =
        std::sqrt(static_cast<double>(shape.rows + shape.cols)) * std::reduce(w.spectrum.begin(), w.spectrum.end());
    w.norm = std::sqrt(kernels::sum_squares(tensor));
  }
  return weights;
}

}  // namespace sotto
