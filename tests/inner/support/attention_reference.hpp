// Attention in fp64 as its definition says it, and its gradient by the chain rule.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

namespace isthmus::inner::test {

struct AttentionShape {
    std::int64_t batch = 1, sequence = 1, heads = 1, kv_heads = 1, head_dim = 1, window = 0;
    double scale = 1;

    std::int64_t row() const { return (heads + 2 * kv_heads) * head_dim; }
    std::int64_t out_row() const { return heads * head_dim; }
    bool sees(std::int64_t q, std::int64_t k) const {
        return k <= q && (window == 0 || q - k < window);
    }
    /// Start of a head's slice within the [B*T, row] matrix.
    std::size_t q_at(std::int64_t b, std::int64_t t, std::int64_t h) const {
        return static_cast<std::size_t>((b * sequence + t) * row() + h * head_dim);
    }
    std::size_t k_at(std::int64_t b, std::int64_t t, std::int64_t h) const {
        return q_at(b, t, heads + h / (heads / kv_heads));
    }
    std::size_t v_at(std::int64_t b, std::int64_t t, std::int64_t h) const {
        return k_at(b, t, h) + static_cast<std::size_t>(kv_heads * head_dim);
    }
    std::size_t out_at(std::int64_t b, std::int64_t t, std::int64_t h) const {
        return static_cast<std::size_t>((b * sequence + t) * out_row() + h * head_dim);
    }
};

inline double dot(const double* a, const double* b, std::int64_t n) {
    double sum = 0;
    for (std::int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
    return sum;
}

/// Probabilities of one query (0 where hidden); returns the log-sum-exp.
inline double reference_probabilities(const AttentionShape& s, const std::vector<double>& qkv,
                                      std::int64_t b, std::int64_t t, std::int64_t h,
                                      std::vector<double>& p) {
    p.assign(static_cast<std::size_t>(s.sequence), 0);
    double top = -INFINITY;
    for (std::int64_t k = 0; k < s.sequence; ++k) {
        if (!s.sees(t, k)) continue;
        auto& score = p[static_cast<std::size_t>(k)];
        score = s.scale * dot(&qkv[s.q_at(b, t, h)], &qkv[s.k_at(b, k, h)], s.head_dim);
        top = std::max(top, score);
    }
    double sum = 0;
    for (std::int64_t k = 0; k < s.sequence; ++k) {
        auto& score = p[static_cast<std::size_t>(k)];
        score = s.sees(t, k) ? std::exp(score - top) : 0.0;
        sum += score;
    }
    for (auto& score : p) score /= sum;
    return top + std::log(sum);
}

inline void reference_attention(const AttentionShape& s, const std::vector<double>& qkv,
                                std::vector<double>& out, std::vector<double>& lse) {
    out.assign(static_cast<std::size_t>(s.batch * s.sequence * s.out_row()), 0);
    lse.clear();
    std::vector<double> p;
    for (std::int64_t b = 0; b < s.batch; ++b)
        for (std::int64_t h = 0; h < s.heads; ++h)
            for (std::int64_t t = 0; t < s.sequence; ++t) {
                lse.push_back(reference_probabilities(s, qkv, b, t, h, p));
                for (std::int64_t k = 0; k <= t; ++k)
                    for (std::int64_t i = 0; i < s.head_dim; ++i)
                        out[s.out_at(b, t, h) + static_cast<std::size_t>(i)] +=
                            p[static_cast<std::size_t>(k)] *
                            qkv[s.v_at(b, k, h) + static_cast<std::size_t>(i)];
            }
}

inline std::vector<double> reference_attention_backward(const AttentionShape& s,
                                                        const std::vector<double>& qkv,
                                                        const std::vector<double>& dout) {
    std::vector<double> d(qkv.size(), 0), p, dp(static_cast<std::size_t>(s.sequence));
    const auto n = static_cast<std::size_t>(s.head_dim);
    for (std::int64_t b = 0; b < s.batch; ++b)
        for (std::int64_t h = 0; h < s.heads; ++h)
            for (std::int64_t t = 0; t < s.sequence; ++t) {
                reference_probabilities(s, qkv, b, t, h, p);
                const double* g = &dout[s.out_at(b, t, h)];
                double delta = 0;
                for (std::int64_t k = 0; k <= t; ++k) {
                    const auto at = static_cast<std::size_t>(k);
                    dp[at] = dot(g, &qkv[s.v_at(b, k, h)], s.head_dim);
                    delta += p[at] * dp[at];
                }
                for (std::int64_t k = 0; k <= t; ++k) {
                    const auto at = static_cast<std::size_t>(k);
                    const double ds = p[at] * (dp[at] - delta) * s.scale;
                    for (std::size_t i = 0; i < n; ++i) {
                        d[s.v_at(b, k, h) + i] += p[at] * g[i];
                        d[s.q_at(b, t, h) + i] += ds * qkv[s.k_at(b, k, h) + i];
                        d[s.k_at(b, k, h) + i] += ds * qkv[s.q_at(b, t, h) + i];
                    }
                }
            }
    return d;
}

}  // namespace isthmus::inner::test
