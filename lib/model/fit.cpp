// SPDX-License-Identifier: Apache-2.0
#include "lib/model/fit.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

namespace tpx {
namespace {

// With more configurations, those that hardly affect the fit are left out by one linear step instead of a new search.
constexpr std::size_t many_configurations = 200;

// The largest leverage of such a configuration: the share of its fitted time that its own measurement determines.
constexpr double small_leverage = 0.1;

// With more runs, outliers are removed in batches: one of `runs_per_outlier` runs by each fit.
constexpr std::size_t many_runs = 1000;
constexpr std::size_t runs_per_outlier = 100;

// The weight below which the removal of a run hardly changes the fit.
constexpr double no_weight = 0.01;

// The matrix and direction of a Gauss-Newton step.
struct Linearization {
    Matrix matrix{};
    Vector downhill{};
};

Linearization linearized(const Posterior& posterior, const Vector& at) {
    Linearization result;
    posterior.linearize(at, result.matrix, result.downhill);
    return result;
}

// `at` after a step whose length is limited.
Vector moved(const Vector& at, const Vector& step) {
    Vector next;
    for (int i = 0; i < parameter_count; ++i) next[i] = at[i] + std::clamp(step[i], -1.0, 1.0);
    return next;
}

// Takes one damped step down from `at`, with the linearization `here`. Returns false if it gains too little or nothing.
bool step_down(const Posterior& posterior, const Linearization& here, Vector& at, double& cost, double& damping) {
    for (int attempt = 0; attempt < 12; ++attempt) {
        Matrix damped = here.matrix;
        for (int i = 0; i < parameter_count; ++i) damped[i][i] *= 1 + damping;
        const Vector next = moved(at, inverse(damped) * here.downhill);
        const double reached = posterior.cost(next);
        if (reached < cost) {
            const bool worth = cost - reached > 1e-7 * cost;
            at = next;
            cost = reached;
            damping = std::max(damping / 5, 1e-9);
            return worth;
        }
        damping *= 4;
    }
    return false;
}

// The maximum that a search from `at`, with the linearization `here`, finds.
Vector descend(const Posterior& posterior, Linearization here, Vector at) {
    double cost = posterior.cost(at), damping = 1e-2;
    for (int i = 0; i < 60 && step_down(posterior, here, at, cost, damping); ++i) here = linearized(posterior, at);
    return at;
}

Vector descend(const Posterior& posterior, const Vector& at) {
    return descend(posterior, linearized(posterior, at), at);
}

// A maximum of the posterior, the mass around it, and which runs are wrong there.
struct Maximum {
    Vector at{};
    double mass_cost = 0;
    std::vector<bool> wrong;
};

// An average that is this much less likely than the best maximum is between maxima rather than near any of them.
constexpr double largest_loss = 10;

// Of a maximum that is so flat that rounding hides its width.
constexpr double flat_mass_cost = 1e300;

// For each set of wrong runs, the maximum with the most mass around it. Where a single run is all that is known of a
// parameter, nothing says for sure whether it is wrong; the average over both cases is then the safest prediction.
class Maxima {
public:
    Maxima(const Posterior& posterior, FitCount* count) : posterior_{posterior}, count_{count} {}

    void search(const Vector& from) {
        Maximum found{descend(posterior_, from), 0, {}};
        found.mass_cost = posterior_.mass_cost(found.at);
        if (!std::isfinite(found.mass_cost)) found.mass_cost = flat_mass_cost;
        for (const double weight : posterior_.weights(found.at)) found.wrong.push_back(weight < 0.5);
        const auto same = std::ranges::find(found_, found.wrong, &Maximum::wrong);
        if (same == found_.end())
            found_.push_back(std::move(found));
        else if (found.mass_cost < same->mass_cost)
            *same = std::move(found);
        if (count_) count_->end_one();
    }

    // The mean and covariance of the posterior as a mixture of normal distributions, one for each maximum.
    Belief average() const {
        const Maximum& best = *std::ranges::min_element(found_, {}, &Maximum::mass_cost);
        double total = 0;
        for (const Maximum& each : found_) total += std::exp(best.mass_cost - each.mass_cost);
        Belief belief;
        for (const Maximum& each : found_)
            for (int i = 0; i < parameter_count; ++i)
                belief.mean[i] += std::exp(best.mass_cost - each.mass_cost) / total * each.at[i];
        if (posterior_.cost(belief.mean) > posterior_.cost(best.at) + largest_loss) belief.mean = best.at;
        for (const Maximum& each : found_) {
            const Matrix covariance = posterior_.covariance(each.at);
            const double share = std::exp(best.mass_cost - each.mass_cost) / total;
            for (int i = 0; i < parameter_count; ++i)
                for (int j = 0; j < parameter_count; ++j)
                    belief.covariance[i][j] +=
                        share * (covariance[i][j] + (each.at[i] - belief.mean[i]) * (each.at[j] - belief.mean[j]));
        }
        return belief;
    }

private:
    const Posterior& posterior_;
    FitCount* count_;
    std::vector<Maximum> found_;
};

// Predicts the time of each configuration by a fit to all others.
class LeftOut {
public:
    LeftOut(const ModelSize& model, std::span<const Run> runs, const Belief& prior, const Vector& at)
        : model_{model},
          runs_{runs},
          posterior_{model, runs, prior, Errors::some_wrong},
          at_{at},
          shares_{posterior_.shares_at(at)} {
        posterior_.linearize(at, shares_, all_.matrix, all_.downhill);
        covariance_ = inverse(all_.matrix);
    }

    // The number of the configuration of run `i`.
    std::size_t group(std::size_t i) const { return posterior_.groups()[i]; }

    // The predicted seconds of the configuration of run `i`.
    double seconds(std::size_t i) const {
        const Posterior::Share& share = shares_[group(i)];
        Linearization others = all_;
        for (int j = 0; j < parameter_count; ++j) {
            const double weighted = share.weight * share.slope[j];
            others.downhill[j] += weighted * share.error;
            for (int k = 0; k < parameter_count; ++k) others.matrix[j][k] -= weighted * share.slope[k];
        }
        const double leverage = share.weight * dot(share.slope, covariance_ * share.slope);
        const bool is_linear = shares_.size() > many_configurations && leverage < small_leverage;
        const Vector reached = is_linear ? moved(at_, inverse(others.matrix) * others.downhill)
                                         : descend(posterior_.without(i), others, at_);
        return predicted_seconds(from_logarithms(reached), model_, runs_[i]);
    }

private:
    const ModelSize& model_;
    std::span<const Run> runs_;
    Posterior posterior_;
    Vector at_;
    std::vector<Posterior::Share> shares_;
    Linearization all_;
    Matrix covariance_{};
};

Fit finish(const Posterior& posterior, const ModelSize& model, std::span<const Run> runs, const Belief& belief) {
    Fit fit;
    fit.parameters = from_logarithms(belief.mean);
    fit.cost = posterior.cost(belief.mean);
    fit.prior = posterior.prior();
    fit.belief = belief;
    fit.weights = posterior.weights(belief.mean);
    fit.shares = posterior.shares();
    fit.leave_one_out_variances = posterior.leave_one_out_variances(belief.mean, posterior.covariance(belief.mean));
    for (const Run& run : runs) fit.errors.push_back(predicted_seconds(fit.parameters, model, run) / run.seconds - 1);
    return fit;
}

double median(std::vector<double> values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

// The runs without the outliers found so far, and these outliers.
class Suspects {
public:
    explicit Suspects(std::span<const Run> runs) : most_{runs.size() / 4}, kept_{runs.begin(), runs.end()} {
        places_.resize(runs.size());
        std::iota(places_.begin(), places_.end(), std::size_t{0});
    }

    std::span<const Run> kept() const { return kept_; }
    bool can_shrink() const { return kept_.size() > 3 && found_.size() < most_; }

    // Removes the worst outlier, and further ones as long as that hardly changes `fit`. A run of a configuration with
    // several runs always changes it, because the other runs then count more. `errors` has the error of each run when
    // its configuration is left out.
    void remove_outliers(const Fit& fit, std::vector<double> errors) {
        std::vector<double> weights;
        for (std::size_t i = 0; i < errors.size(); ++i) weights.push_back(fit.shares[i] < 1 ? 1 : fit.weights[i]);
        const bool is_sure = count_configurations(kept_) > few_configurations;
        std::size_t left = kept_.size() > many_runs ? kept_.size() / runs_per_outlier : 1;
        for (double& error : errors) error = std::abs(error);
        while (left > 0 && can_shrink()) {
            const auto worst = std::ranges::max_element(errors) - errors.begin();
            if (errors[worst] <= std::max(0.1, 4 * 1.4826 * median(errors))) break;
            if (!is_sure || weights[worst] > no_weight) --left;
            found_.push_back(places_[worst]);
            places_.erase(places_.begin() + worst);
            kept_.erase(kept_.begin() + worst);
            weights.erase(weights.begin() + worst);
            errors.erase(errors.begin() + worst);
        }
    }

    std::vector<std::size_t> found() const {
        std::vector<std::size_t> sorted = found_;
        std::ranges::sort(sorted);
        return sorted;
    }

private:
    std::size_t most_;
    std::vector<Run> kept_;
    std::vector<std::size_t> places_, found_;
};

}  // namespace

Fit fit_parameters(const ModelSize& model, std::span<const Run> runs, const Belief& prior, int starts,
                   FitCount* count) {
    const Posterior posterior{model, runs, prior, Errors::some_wrong};
    // Searches begin at the maximum of the posterior with normal errors, because far from a maximum all runs look
    // wrong.
    const Posterior normal_errors = posterior.with(Errors::normal);
    std::mt19937 random{1};
    std::normal_distribution<double> normal;
    // With few configurations, one wrong run can hide the best maximum, so also start without each of them.
    const std::size_t different = count_configurations(runs);
    const bool leaves_out = starts > 1 && different <= few_configurations;
    if (count) count->expect(static_cast<std::size_t>(starts) + (leaves_out ? different : 0));
    Maxima maxima{posterior, count};
    const Belief& assumed = posterior.prior();
    maxima.search(descend(normal_errors, prior.mean));
    for (int start = 1; start < starts; ++start) {
        Vector from = prior.mean;
        for (int i = 0; i < parameter_count; ++i)
            if (is_free(assumed, i)) from[i] += normal(random) * std::sqrt(assumed.covariance[i][i]);
        maxima.search(descend(normal_errors, from));
    }
    const std::vector<std::size_t> same = configurations(runs);
    if (leaves_out) {
        for (std::size_t i = 0; i < runs.size(); ++i)
            if (same[i] == i) maxima.search(descend(normal_errors.without(i), prior.mean));
    }
    return finish(posterior, model, runs, maxima.average());
}

std::vector<double> leave_one_out(const ModelSize& model, std::span<const Run> runs, const Belief& prior,
                                  const Fit& fit, FitCount* count) {
    if (count) count->expect(count_configurations(runs));
    const LeftOut left_out{model, runs, prior, fit.belief.mean};
    std::vector<double> predicted, errors;  // `predicted` is by configuration
    for (std::size_t i = 0; i < runs.size(); ++i) {
        if (left_out.group(i) == predicted.size()) {
            predicted.push_back(left_out.seconds(i));
            if (count) count->end_one();
        }
        errors.push_back(predicted[left_out.group(i)] / runs[i].seconds - 1);
    }
    return errors;
}

std::vector<Certainty> certainties(const Fit& fit) {
    std::vector<Certainty> result;
    for (int i = 0; i < parameter_count; ++i) {
        const ParameterInfo& info = parameter_infos()[i];
        const double before = fit.prior.covariance[i][i], after = std::max(0.0, fit.belief.covariance[i][i]);
        const double reach = 1.645 * std::sqrt(after);
        const double center = fit.belief.mean[i];
        const double learned = is_free(fit.prior, i) ? std::clamp(1 - after / before, 0.0, 1.0) : 0;
        result.push_back({info.least + std::exp(center - reach), info.least + std::exp(center + reach), learned});
    }
    return result;
}

std::vector<std::size_t> outliers(const ModelSize& model, std::span<const Run> runs, const Belief& prior,
                                  FitCount* count) {
    Suspects suspects{runs};
    for (std::size_t before = runs.size() + 1; suspects.can_shrink() && suspects.kept().size() < before;) {
        before = suspects.kept().size();
        const Fit fit = fit_parameters(model, suspects.kept(), prior, 2, count);
        suspects.remove_outliers(fit, leave_one_out(model, suspects.kept(), prior, fit, count));
    }
    return suspects.found();
}

double mean_magnitude(std::span<const double> values) {
    double sum = 0;
    for (const double value : values) sum += std::abs(value);
    return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

}  // namespace tpx
