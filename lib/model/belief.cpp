// SPDX-License-Identifier: Apache-2.0
#include "lib/model/belief.hpp"

#include <cmath>
#include <limits>

namespace tpx {
namespace {

// Lower triangle of the root of `matrix`; false when it is not positive definite.
bool cholesky(const Matrix& matrix, Matrix& root) {
    root = {};
    for (int i = 0; i < parameter_count; ++i) {
        for (int j = 0; j <= i; ++j) {
            double rest = matrix[i][j];
            for (int k = 0; k < j; ++k) rest -= root[i][k] * root[j][k];
            if (i == j && !(rest > 0)) return false;
            root[i][j] = i == j ? std::sqrt(rest) : rest / root[j][j];
        }
    }
    return true;
}

Vector solve(const Matrix& root, Vector right) {
    for (int i = 0; i < parameter_count; ++i) {
        for (int k = 0; k < i; ++k) right[i] -= root[i][k] * right[k];
        right[i] /= root[i][i];
    }
    for (int i = parameter_count; i-- > 0;) {
        for (int k = i + 1; k < parameter_count; ++k) right[i] -= root[k][i] * right[k];
        right[i] /= root[i][i];
    }
    return right;
}

}  // namespace

Vector logarithms(const Parameters& parameters) {
    Vector result{};
    for (int i = 0; i < parameter_count; ++i) {
        const ParameterInfo& info = parameter_infos()[i];
        result[i] = std::log(std::max(parameters.*info.value - info.least, 1e-300));
    }
    return result;
}

Parameters from_logarithms(const Vector& logarithms) {
    Parameters parameters;
    for (int i = 0; i < parameter_count; ++i) {
        const ParameterInfo& info = parameter_infos()[i];
        parameters.*info.value = info.least + std::exp(logarithms[i]);
    }
    return parameters;
}

Belief prior_belief(const ModelSize& model) {
    Belief prior;
    prior.mean = logarithms(prior_parameters(model));
    for (int i = 0; i < parameter_count; ++i) {
        const double deviation = parameter_infos()[i].deviation;
        prior.covariance[i][i] = deviation * deviation;
    }
    return prior;
}

Belief prior_for(Belief prior, std::size_t configurations) {
    if (configurations <= few_configurations) return prior;
    for (int i = 0; i < parameter_count; ++i) {
        const double deviation = parameter_infos()[i].deviation_with_many;
        if (deviation > 0 && !is_free(prior, i)) prior.covariance[i][i] = deviation * deviation;
    }
    return prior;
}

bool is_free(const Belief& belief, int index) {
    constexpr double rounding = 1.01;
    return belief.covariance[index][index] > rounding * fixed_deviation * fixed_deviation;
}

void measured(Belief& belief, int index, double value, double relative) {
    belief.mean[index] = std::log(value - parameter_infos()[index].least);
    for (int i = 0; i < parameter_count; ++i) belief.covariance[i][index] = belief.covariance[index][i] = 0;
    belief.covariance[index][index] = relative * relative;
}

Matrix inverse(const Matrix& matrix) {
    Matrix root, result{};
    if (!cholesky(matrix, root)) return result;
    for (int j = 0; j < parameter_count; ++j) {
        Vector unit{};
        unit[j] = 1;
        const Vector column = solve(root, unit);
        for (int i = 0; i < parameter_count; ++i) result[i][j] = column[i];
    }
    return result;
}

double log_determinant(const Matrix& matrix) {
    Matrix root;
    if (!cholesky(matrix, root)) return std::numeric_limits<double>::infinity();
    double sum = 0;
    for (int i = 0; i < parameter_count; ++i) sum += 2 * std::log(root[i][i]);
    return sum;
}

Vector operator*(const Matrix& matrix, const Vector& vector) {
    Vector result{};
    for (int i = 0; i < parameter_count; ++i) result[i] = dot(matrix[i], vector);
    return result;
}

double dot(const Vector& a, const Vector& b) {
    double sum = 0;
    for (int i = 0; i < parameter_count; ++i) sum += a[i] * b[i];
    return sum;
}

void learn(Matrix& covariance, const Vector& slope, double variance) {
    const Vector gain = covariance * slope;
    const double total = variance + dot(slope, gain);
    for (int i = 0; i < parameter_count; ++i)
        for (int j = 0; j < parameter_count; ++j) covariance[i][j] -= gain[i] * gain[j] / total;
}

}  // namespace tpx
