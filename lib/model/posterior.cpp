// SPDX-License-Identifier: Apache-2.0
#include "lib/model/posterior.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace tpx {
namespace {

// How often a run is taken to be wrong, and how many times as far off as usual it then is. Chosen by the error on the
// measured tables with and without one wrong run among nine.
constexpr double wrong_share = 0.01;
constexpr double wrong_reach = 20;

// The deviation of the logarithms of fitted times: a fit comes closer to its own runs than to others.
constexpr double fitted_deviation = 0.035;

// Degrees of freedom of the Student distribution of what hardware and its software decide. Chosen like wrong_share.
constexpr double hardware_freedom = 6;

// What a run `square` = (distance / deviation)^2 away is worth: as a right one, and as a wrong one.
double right_log(double square) { return std::log(1 - wrong_share) - square / 2; }
double wrong_log(double square) {
    return std::log(wrong_share / wrong_reach) - square / (2 * wrong_reach * wrong_reach);
}

// Twice minus the logarithm of the density of a run.
double run_cost(double square, Errors errors) {
    if (errors == Errors::normal) return square;
    const double right = right_log(square), wrong = wrong_log(square), larger = std::max(right, wrong);
    return -2 * (larger + std::log(std::exp(right - larger) + std::exp(wrong - larger)));
}

// The weight that gives a normal distribution the same slope: between 1 for a right run and almost 0 for a wrong one.
double run_weight(double square, Errors errors) {
    if (errors == Errors::normal) return 1;
    const double right = 1 / (1 + std::exp(wrong_log(square) - right_log(square)));
    return right + (1 - right) / (wrong_reach * wrong_reach);
}

constexpr double Parameters::*hardware_parameters[] = {&Parameters::forward,      &Parameters::k_const,
                                                       &Parameters::intra,        &Parameters::nic,
                                                       &Parameters::further_host, &Parameters::two_hosts};

bool is_of_hardware(int parameter) {
    return std::ranges::count(hardware_parameters, parameter_infos()[parameter].value) > 0;
}

// The prior of these parameters is one multivariate Student distribution of `square`, the sum of their squared
// distances from the mean; near the mean it equals the normal one. Unusual hardware usually differs in several
// parameters, and a single one that deviates more likely means a wrong run.
constexpr double freedom_and_dimension = hardware_freedom + std::size(hardware_parameters);

// Twice minus the logarithm of that density, and the weight that gives a normal distribution the same slope.
double hardware_cost(double square) { return freedom_and_dimension * std::log1p(square / freedom_and_dimension); }
double hardware_weight(double square) { return freedom_and_dimension / (freedom_and_dimension + square); }

// One over the variance of the logarithm of a time that counts by `weight`.
double information(double weight) { return weight / (fitted_deviation * fitted_deviation); }

// A run that alone determines a parameter would have an infinite variance without itself, to rounding.
constexpr double largest_leverage = 0.9999;

}  // namespace

Posterior::Posterior(const ModelSize& model, std::span<const Run> runs, const Belief& prior, Errors errors)
    : model_{model}, runs_{runs}, errors_{errors} {
    const std::vector<std::size_t> same = configurations(runs);
    for (std::size_t i = 0; i < runs.size(); ++i) {
        groups_.push_back(same[i] == i ? firsts_.size() : groups_[same[i]]);
        if (same[i] != i) continue;
        firsts_.push_back(i);
        routes_.push_back(routes_of(runs[i].plan, runs[i].allocation));
    }
    prior_ = prior_for(prior, firsts_.size());
    precision_ = inverse(prior_.covariance);
    std::vector<double> sizes(firsts_.size());
    for (const std::size_t group : groups_) ++sizes[group];
    for (const std::size_t group : groups_) shares_.push_back(1 / sizes[group]);
}

Posterior Posterior::with(Errors errors) const {
    Posterior other = *this;
    other.errors_ = errors;
    return other;
}

Posterior Posterior::without(std::size_t run) const {
    Posterior other = *this;
    other.without_ = groups_[run];
    return other;
}

double Posterior::cost(const Vector& at) const {
    const std::vector<double> errors = log_errors(from_logarithms(at));
    double sum = 0;
    for (std::size_t i = 0; i < runs_.size(); ++i) {
        const double off = errors[i] / fitted_deviation;
        if (groups_[i] != without_) sum += shares_[i] * run_cost(off * off, errors_);
    }
    const SquaredDistances moved = squared_distances(away(at));
    return (sum + moved.others + hardware_cost(moved.hardware)) / 2;
}

std::vector<Posterior::Share> Posterior::shares_at(const Vector& at) const {
    const Parameters is = from_logarithms(at);
    std::vector<Share> result(firsts_.size());
    const std::vector<double> errors = log_errors(is), right = weights(errors);
    for (std::size_t i = 0; i < runs_.size(); ++i) {
        Share& share = result[groups_[i]];
        const double weight = information(right[i]) * shares_[i];
        share.weight += weight;
        share.error += firsts_[groups_[i]] == i ? errors[i] : (errors[i] - share.error) * weight / share.weight;
    }
    for (std::size_t group = 0; group < result.size(); ++group) {
        result[group].counts = group != without_;
        if (result[group].counts) result[group].slope = slope_of(is, model_, runs_[firsts_[group]], routes_[group]);
    }
    return result;
}

void Posterior::linearize(const Vector& at, Matrix& matrix, Vector& downhill) const {
    linearize(at, shares_at(at), matrix, downhill);
}

void Posterior::linearize(const Vector& at, std::span<const Share> shares, Matrix& matrix, Vector& downhill) const {
    const Vector moved = away(at);
    const double weight_of_hardware = hardware_weight(squared_distances(moved).hardware);
    matrix = precision_;
    for (int i = 0; i < parameter_count; ++i) {
        if (is_of_hardware(i)) matrix[i][i] *= weight_of_hardware;
        downhill[i] = -matrix[i][i] * moved[i];
    }
    for (const Share& share : shares) {
        if (!share.counts) continue;
        for (int j = 0; j < parameter_count; ++j) {
            const double weighted = share.weight * share.slope[j];
            downhill[j] -= weighted * share.error;
            for (int k = 0; k < parameter_count; ++k) matrix[j][k] += weighted * share.slope[k];
        }
    }
}

Matrix Posterior::covariance(const Vector& at) const {
    Matrix matrix;
    Vector downhill;
    linearize(at, matrix, downhill);
    return inverse(matrix);
}

double Posterior::mass_cost(const Vector& at) const {
    Matrix matrix;
    Vector downhill;
    linearize(at, matrix, downhill);
    return cost(at) + log_determinant(matrix) / 2;
}

std::vector<double> Posterior::weights(const Vector& at) const { return weights(log_errors(from_logarithms(at))); }

std::vector<double> Posterior::weights(const std::vector<double>& log_errors) const {
    std::vector<double> result;
    result.reserve(log_errors.size());
    for (const double error : log_errors) {
        const double off = error / fitted_deviation;
        result.push_back(run_weight(off * off, errors_));
    }
    return result;
}

std::vector<double> Posterior::leave_one_out_variances(const Vector& at, const Matrix& covariance) const {
    std::vector<double> of_group;
    for (const Share& share : shares_at(at)) {
        const double variance = dot(share.slope, covariance * share.slope);
        const double leverage = std::min(variance * share.weight, largest_leverage);
        of_group.push_back(variance / (1 - leverage));  // the inverse of learn() for one configuration
    }
    std::vector<double> result;
    for (const std::size_t group : groups_) result.push_back(of_group[group]);
    return result;
}

std::vector<double> Posterior::log_errors(const Parameters& is) const {
    std::vector<double> seconds, result;
    seconds.reserve(firsts_.size());
    for (std::size_t group = 0; group < firsts_.size(); ++group) {
        const Run& run = runs_[firsts_[group]];
        seconds.push_back(step_time(is, model_, run.batch, run.plan, routes_[group], run.allocation.cpus).total());
    }
    result.reserve(runs_.size());
    for (std::size_t i = 0; i < runs_.size(); ++i) result.push_back(std::log(seconds[groups_[i]] / runs_[i].seconds));
    return result;
}

Vector Posterior::away(const Vector& at) const {
    Vector moved;
    for (int i = 0; i < parameter_count; ++i) moved[i] = at[i] - prior_.mean[i];
    return moved;
}

Posterior::SquaredDistances Posterior::squared_distances(const Vector& moved) const {
    SquaredDistances result;
    for (int i = 0; i < parameter_count; ++i)
        (is_of_hardware(i) ? result.hardware : result.others) += moved[i] * moved[i] * precision_[i][i];
    return result;
}

}  // namespace tpx
