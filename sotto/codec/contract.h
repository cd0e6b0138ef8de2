#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace sotto {

// What a codec promises about decode(encode(x)) =: C(x), for the given layout. All kinds but `exact` may add an error
// of up to 2^-126 to each value, since smaller floats (denormals) have fewer bits.
struct Contract {
  enum class Kind : std::uint8_t {
    exact,        // C(x) = x, bit for bit
    rounding,     // |C(x)-x| <= 1e-5 |x|: exact but for the rounding of floats
    unbiased,     // E C(x) = x and E |C(x)-x|^2 <= omega |x|^2
    contraction,  // E |C(x)-x|^2 <= (1-delta) |x|^2
    none,         // neither
  };
  enum class Input : std::uint8_t { gradient, delta, model };  // the most sensitive input that suits the codec
  enum class Grain : std::uint8_t { element, block, row, segment };
  // Which random numbers a message depends on: none, numbers that all ranks draw alike, or this rank's own numbers. The
  // signs that `signs` draws for zeros do not count.
  enum class Chance : std::uint8_t { none, shared, own };

  Kind kind = Kind::exact;
  double omega = 0;  // if unbiased or none: E |C(x)-x|^2 / |x|^2; infinite if there is no bound
  double delta = 1;  // of a contraction, in (0, 1]
  bool linear = false;
  bool signs = false;       // C(x) is the sign of x, -1 or 1, and nothing else
  bool keeps_zeros = true;  // C(0) = 0
  Input input = Input::gradient;
  Grain grain = Grain::element;  // where a bucket may be cut into parts, each of which then keeps the contract
  std::size_t block = 1;         // elements a block, when grain is block
  Chance chance = Chance::none;
};

// The contract of `then` after `first`. A contraction as `first` is taken to be a projection (a selection: the kept and
// the dropped part are orthogonal), and `then` sees only the kept part.
Contract compose(const Contract& first, const Contract& then);

// The contract of a sum of `atoms` orthogonal products u v^T, if a stage with contract `factors` is applied to each
// factor.
Contract of_products(const Contract& factors, std::size_t atoms);

// The delta of a contraction that a contract of any kind implies. 0: the error may be as large as the whole vector.
double contraction_of(const Contract& contract);

// "unbiased, variance <= 1.5 |x|^2; gradients and differences; parts cut at blocks of 512"
std::string describe(const Contract& contract);

}  // namespace sotto
