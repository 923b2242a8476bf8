// What the votes on an attempt say: a result, sites that miss each other, results that differ, bad
// numbers.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "outer/coordinator_step.hpp"

namespace isthmus::outer {

namespace {

/// Norms of recent inputs, of which the median is taken.
constexpr std::size_t kNormsKept = 64;
/// With fewer the median says nothing yet.
constexpr std::size_t kNormsNeeded = 6;

double median(std::vector<double> values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

}  // namespace

void CoordinatorStep::on(SiteId id, const Vote& vote) {
    Site& site = at(id);
    if (s_.last_commit && vote.attempt == s_.last_commit->attempt) {
        // It voted, so it holds the result; it only missed the answer.
        tell_commit(id);
        return;
    }
    if (s_.phase != Phase::kExchange || !takes_part(id)) return;
    if (vote.attempt != s_.begin->attempt) {
        if (!site.vote) say(id, *s_.begin);
        return;
    }
    if (site.vote && site.vote->result) return;
    site.vote = vote;
    site.moved = now_;
    evaluate(vote);
}

void CoordinatorStep::evaluate(const Vote& newest) {
    if (drop_bad_numbers(newest)) return;
    bool all = true, complete = true, same = true;
    std::optional<StateHash> result;
    for (const Participant& p : s_.begin->participants) {
        const auto& vote = at(p.peer.site).vote;
        all = all && vote;
        complete = complete && vote && vote->result;
        if (!vote || !vote->result) continue;
        same = same && (!result || *result == *vote->result);
        result = vote->result;
    }
    if (!all) return;
    if (!complete) return resolve_missing();
    if (!same) return resolve_mismatch();
    if (!drop_large_norms()) commit();
}

/// All other participants have voted one result: the round is complete, whatever becomes of this
/// site.
bool CoordinatorStep::others_agree(SiteId id) const {
    std::optional<StateHash> result;
    for (const Participant& p : s_.begin->participants) {
        if (p.peer.site == id) continue;
        const auto& vote = at(p.peer.site).vote;
        if (!vote || !vote->result || (result && *result != *vote->result)) return false;
        result = vote->result;
    }
    return result.has_value();
}

/// A site whose numbers are not finite is left out and restored.
bool CoordinatorStep::drop_bad_numbers(const Vote& newest) {
    std::vector<std::pair<SiteId, std::string>> bad;
    for (const InputReport& input : newest.inputs) {
        if (!input.finite && takes_part(input.site))
            bad.emplace_back(input.site, "its numbers are not finite");
    }
    lose_all(bad, Loss::kVoid);
    return !bad.empty();
}

/// Of every input, as those who voted saw it.
std::map<SiteId, double> CoordinatorStep::norms() const {
    std::map<SiteId, double> out;
    for (const Participant& p : s_.begin->participants) {
        for (const InputReport& input : at(p.peer.site).vote->inputs) {
            double& sum = out[input.site];
            // Owners saw a part each; in an all-gather everyone saw the whole.
            sum = s_.begin->method == Method::kOwners ? sum + input.sum_of_squares
                                                      : input.sum_of_squares;
        }
    }
    for (auto& [id, sum] : out) sum = std::sqrt(sum);
    return out;
}

/// An input far beyond the median of recent ones is left out, and its site restored.
bool CoordinatorStep::drop_large_norms() {
    if (s_.begin->method == Method::kSolo) return false;
    const std::map<SiteId, double> inputs = norms();
    if (s_.options.max_norm_ratio > 0 && inputs.size() >= 3 && s_.norms.size() >= kNormsNeeded) {
        const double limit = s_.options.max_norm_ratio * median(s_.norms);
        std::vector<std::pair<SiteId, std::string>> large;
        for (const auto& [id, norm] : inputs) {
            if (norm <= limit || limit <= 0 || !takes_part(id)) continue;
            large.emplace_back(
                id, fmt::format("its pseudo-gradient has norm {:.3g}, beyond {:g} times the median",
                                norm, s_.options.max_norm_ratio));
        }
        lose_all(large, Loss::kVoid);
        if (!large.empty()) return true;
    }
    for (const auto& [id, norm] : inputs) s_.norms.push_back(norm);
    if (s_.norms.size() > kNormsKept) {
        s_.norms.erase(s_.norms.begin(), s_.norms.end() - static_cast<std::ptrdiff_t>(kNormsKept));
    }
    return false;
}

/// Someone could not get what it needs from someone who still speaks with us (PROTOCOL 12). First
/// all try again, with only those as owners who reach everyone; if there is none, or it was tried,
/// the sites that miss most others are let go until those who stay reach each other.
void CoordinatorStep::resolve_missing() {
    std::set<std::pair<SiteId, SiteId>> pairs;
    for (const Participant& p : s_.begin->participants) {
        for (SiteId missing : at(p.peer.site).vote->missing) {
            if (!takes_part(missing) || missing == p.peer.site) continue;
            pairs.insert({std::min(missing, p.peer.site), std::max(missing, p.peer.site)});
        }
    }
    std::map<SiteId, int> misses;
    for (const auto& [a, b] : pairs) {
        ++misses[a];
        ++misses[b];
    }
    const bool tried = !s_.unconnected.empty() || s_.attempts > 1;
    if (!tried || pairs.empty()) {
        if (misses.size() < s_.begin->participants.size() && s_.begin->participants.size() > 2) {
            s_.unconnected.assign(pairs.begin(), pairs.end());
        }
        return retry("sites miss each other's data");
    }
    std::vector<std::pair<SiteId, std::string>> gone;
    while (!pairs.empty()) {
        const auto weight = [&](SiteId id) {
            for (const Participant& p : s_.begin->participants) {
                if (p.peer.site == id) return p.weight;
            }
            return 0.0f;
        };
        const auto worst =
            std::max_element(misses.begin(), misses.end(), [&](const auto& a, const auto& b) {
                if (a.second != b.second) return a.second < b.second;
                if (weight(a.first) != weight(b.first)) return weight(a.first) > weight(b.first);
                return a.first < b.first;
            });
        const SiteId out = worst->first;
        SiteId other = out;
        for (auto it = pairs.begin(); it != pairs.end();) {
            if (it->first != out && it->second != out) {
                ++it;
                continue;
            }
            other = it->first == out ? it->second : it->first;
            --misses[other];
            it = pairs.erase(it);
        }
        misses.erase(out);
        gone.emplace_back(out,
                          fmt::format("it and site {} do not reach each other", at(other).name));
    }
    s_.unconnected.clear();
    lose_all(gone, Loss::kGone);
}

void CoordinatorStep::resolve_mismatch() {
    if (++s_.mismatches < 2) return retry("the sites' results differ");
    std::map<StateHash, std::vector<SiteId>> by_result;
    for (const Participant& p : s_.begin->participants) {
        by_result[*at(p.peer.site).vote->result].push_back(p.peer.site);
    }
    std::size_t most = 0, times = 0;
    for (const auto& [hash, sites] : by_result) most = std::max(most, sites.size());
    for (const auto& [hash, sites] : by_result) times += sites.size() == most ? 1 : 0;
    if (times > 1) {
        s_.paused = true;
        report(fmt::format("round {}: the sites' results differ twice and no majority says which "
                           "is right: nothing was "
                           "applied, the run is paused; drop the site that is wrong, then resume",
                           s_.newest.round.value),
               true);
        return retry("the sites' results differ");
    }
    std::vector<std::pair<SiteId, std::string>> odd;
    for (const auto& [hash, sites] : by_result) {
        for (SiteId id : sites) {
            if (sites.size() < most) odd.emplace_back(id, "its result differs from the others'");
        }
    }
    lose_all(odd, Loss::kVoid);
}

}  // namespace isthmus::outer
