// SPDX-License-Identifier: Apache-2.0
#include "lib/cluster/interior_point.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tpx {
namespace {

using Doubles = std::vector<double>;
using Rows = std::vector<Doubles>;

double dot(const Doubles& a, const Doubles& b) { return std::inner_product(a.begin(), a.end(), b.begin(), 0.0); }

double norm(const Doubles& a) { return std::sqrt(dot(a, a)); }

// a x for each row of `a`.
Doubles times(const Rows& a, const Doubles& x) {
    Doubles result;
    for (const Doubles& row : a) result.push_back(dot(row, x));
    return result;
}

// The transpose of `a`, times y.
Doubles times_transposed(const Rows& a, const Doubles& y, std::size_t columns) {
    Doubles result(columns);
    for (std::size_t i = 0; i < a.size(); ++i)
        for (std::size_t j = 0; j < columns; ++j) result[j] += a[i][j] * y[i];
    return result;
}

// Symmetric equations, factored once and solved for several right sides (Cholesky).
class Factored {
public:
    explicit Factored(Rows m) : lower_{std::move(m)} {
        for (std::size_t j = 0; j < lower_.size(); ++j) {
            for (std::size_t k = 0; k < j; ++k) lower_[j][j] -= lower_[j][k] * lower_[j][k];
            lower_[j][j] = std::sqrt(std::max(lower_[j][j], 1e-300));
            for (std::size_t i = j + 1; i < lower_.size(); ++i) {
                for (std::size_t k = 0; k < j; ++k) lower_[i][j] -= lower_[i][k] * lower_[j][k];
                lower_[i][j] /= lower_[j][j];
            }
        }
    }

    Doubles solve(Doubles r) const {
        const std::size_t n = lower_.size();
        for (std::size_t i = 0; i < n; ++i) {
            for (std::size_t k = 0; k < i; ++k) r[i] -= lower_[i][k] * r[k];
            r[i] /= lower_[i][i];
        }
        for (std::size_t i = n; i-- > 0;) {
            for (std::size_t k = i + 1; k < n; ++k) r[i] -= lower_[k][i] * r[k];
            r[i] /= lower_[i][i];
        }
        return r;
    }

private:
    Rows lower_;
};

// The variables of the homogeneous program, or a step of them.
struct Point {
    Doubles x, y, z;
    double tau = 1, kappa = 1;
};

class Path {
public:
    explicit Path(const EqualityProgram& program)
        : a_{program.rows},
          b_{program.limits},
          c_{program.cost},
          at_{Doubles(c_.size(), 1), Doubles(b_.size()), Doubles(c_.size(), 1)},
          first_{primal_error(), dual_error()} {}

    Doubles follow() {
        constexpr int most_steps = 100;
        for (int i = 0; i < most_steps && std::isfinite(gap()); ++i) {
            if (is_there()) {
                for (double& x : at_.x) x /= at_.tau;
                return at_.x;
            }
            advance();
        }
        return {};
    }

private:
    Doubles primal() const {
        Doubles r = times(a_, at_.x);
        for (std::size_t i = 0; i < r.size(); ++i) r[i] = b_[i] * at_.tau - r[i];
        return r;
    }
    Doubles dual() const {
        Doubles r = times_transposed(a_, at_.y, c_.size());
        for (std::size_t j = 0; j < r.size(); ++j) r[j] = c_[j] * at_.tau - r[j] - at_.z[j];
        return r;
    }
    double gap() const { return dot(c_, at_.x) - dot(b_, at_.y); }
    double primal_error() const { return norm(primal()); }
    double dual_error() const { return norm(dual()); }

    bool is_there() const {
        constexpr double tolerance = 1e-8;
        return primal_error() <= tolerance * std::max(1.0, first_.first) &&
               dual_error() <= tolerance * std::max(1.0, first_.second) &&
               std::abs(gap()) <= tolerance * (at_.tau + std::abs(dot(b_, at_.y)));
    }

    Factored normal_equations() const {
        Rows m(a_.size(), Doubles(a_.size()));
        for (std::size_t j = 0; j < c_.size(); ++j) {
            const double weight = at_.x[j] / at_.z[j];
            for (std::size_t i = 0; i < a_.size(); ++i) {
                if (a_[i][j] == 0) continue;
                for (std::size_t k = 0; k <= i; ++k) m[i][k] += a_[i][j] * weight * a_[k][j];
            }
        }
        return Factored{std::move(m)};
    }

    // Both unknowns of the augmented equations with right sides `r` and `s`.
    std::pair<Doubles, Doubles> augmented(const Factored& normal, const Doubles& r, const Doubles& s) const {
        Doubles scaled = r;
        for (std::size_t j = 0; j < r.size(); ++j) scaled[j] *= at_.x[j] / at_.z[j];
        Doubles right = times(a_, scaled);
        for (std::size_t i = 0; i < right.size(); ++i) right[i] += s[i];
        Doubles v = normal.solve(std::move(right));
        Doubles u = times_transposed(a_, v, c_.size());
        for (std::size_t j = 0; j < u.size(); ++j) u[j] = (u[j] - r[j]) * at_.x[j] / at_.z[j];
        return {std::move(u), std::move(v)};
    }

    // The step towards the point of the path at `gamma` times the distance; `guess` is the one that it corrects.
    Point step(const Factored& normal, double gamma, const Point* guess) const {
        const std::size_t n = c_.size();
        const double mu = (dot(at_.x, at_.z) + at_.tau * at_.kappa) / static_cast<double>(n + 1);
        Doubles r_dual = dual(), r_primal = primal();
        for (double& r : r_dual) r *= 1 - gamma;
        for (double& r : r_primal) r *= 1 - gamma;
        const double r_gap = (1 - gamma) * (gap() + at_.kappa);
        Doubles r_xz(n);
        for (std::size_t j = 0; j < n; ++j)
            r_xz[j] = gamma * mu - at_.x[j] * at_.z[j] - (guess ? guess->x[j] * guess->z[j] : 0);
        const double r_tk = gamma * mu - at_.tau * at_.kappa - (guess ? guess->tau * guess->kappa : 0);
        const auto [p, q] = augmented(normal, c_, b_);
        for (std::size_t j = 0; j < n; ++j) r_dual[j] -= r_xz[j] / at_.x[j];
        const auto [u, v] = augmented(normal, r_dual, r_primal);
        Point step{u, v, Doubles(n)};
        step.tau = (r_gap + r_tk / at_.tau + dot(c_, u) - dot(b_, v)) / (at_.kappa / at_.tau - dot(c_, p) + dot(b_, q));
        for (std::size_t j = 0; j < n; ++j) {
            step.x[j] += p[j] * step.tau;
            step.z[j] = (r_xz[j] - at_.z[j] * step.x[j]) / at_.x[j];
        }
        for (std::size_t i = 0; i < step.y.size(); ++i) step.y[i] += q[i] * step.tau;
        step.kappa = (r_tk - at_.kappa * step.tau) / at_.tau;
        return step;
    }

    // How much of `step` can be gone until something is 0.
    double length(const Point& step) const {
        double most = 1;
        const auto limit = [&](double value, double change) {
            if (change < 0) most = std::min(most, value / -change);
        };
        for (std::size_t j = 0; j < c_.size(); ++j) limit(at_.x[j], step.x[j]), limit(at_.z[j], step.z[j]);
        limit(at_.tau, step.tau);
        limit(at_.kappa, step.kappa);
        return most;
    }

    void advance() {
        constexpr double nearly = 0.99995, most_centering = 0.1;
        const Factored normal = normal_equations();
        const Point predicted = step(normal, 0, nullptr);
        const double left = 1 - length(predicted);
        const Point go = step(normal, left * left * std::min(most_centering, left), &predicted);
        const double way = nearly * length(go);
        const auto move = [&](Doubles& values, const Doubles& changes) {
            for (std::size_t i = 0; i < values.size(); ++i) values[i] += way * changes[i];
        };
        move(at_.x, go.x);
        move(at_.y, go.y);
        move(at_.z, go.z);
        at_.tau += way * go.tau;
        at_.kappa += way * go.kappa;
    }

    const Rows& a_;
    const Doubles& b_;
    const Doubles& c_;
    Point at_;
    std::pair<double, double> first_;  // errors at the beginning
};

}  // namespace

std::vector<double> interior_optimum(const EqualityProgram& program) { return Path{program}.follow(); }

}  // namespace tpx
