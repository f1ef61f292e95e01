// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/model/parameters.hpp"

#include <array>

namespace tpx {

/// A value for each parameter, in the order of parameter_infos().
using Vector = std::array<double, parameter_count>;

/// Row by row.
using Matrix = std::array<Vector, parameter_count>;

/// What is believed of the parameters: the logarithms of (value - least) are normal.
struct Belief {
    Vector mean{};        ///< of the logarithms
    Matrix covariance{};  ///< of the logarithms
};

/// The logarithms of (value - least).
Vector logarithms(const Parameters& parameters);

/// The parameters with these logarithms.
Parameters from_logarithms(const Vector& logarithms);

/// What is believed of `model` before any run is seen: prior_parameters() and the deviations of parameter_infos().
Belief prior_belief(const ModelSize& model);

/// `prior` of a fit to runs of `configurations` different configurations: with more than few_configurations, parameters
/// with `deviation_with_many` become free.
Belief prior_for(Belief prior, std::size_t configurations);

/// Whether runs can change parameter `index` of `belief`.
bool is_free(const Belief& belief, int index);

/// `belief` once parameter `index` has been measured as `value`, to within `relative` of it.
void measured(Belief& belief, int index, double value, double relative);

/// The inverse of a symmetric positive definite matrix; zeros where it is not one, to rounding.
Matrix inverse(const Matrix& matrix);

/// The logarithm of the determinant of a symmetric positive definite matrix; infinite where it is not one, to rounding.
double log_determinant(const Matrix& matrix);

Vector operator*(const Matrix& matrix, const Vector& vector);
double dot(const Vector& a, const Vector& b);

/// `covariance` once a quantity that grows by `slope` has been seen with `variance`: one row's worth of learning.
void learn(Matrix& covariance, const Vector& slope, double variance);

}  // namespace tpx
