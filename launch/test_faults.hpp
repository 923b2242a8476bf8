// For tests only: a process that fails at an exact point of a round.
//
//   ISTHMUS_TEST_FAULT="kill exchange 2"   SIGKILL to itself when it enters this phase at meeting 2
//                                          (from 0)
//   ISTHMUS_TEST_FAULT="poison cut 2"      a site's parameters are NaN when it stands at meeting 2
//
// Phases of a site are those of SiteDriver::Options::on_phase, of a coordinator those of
// CoordinatorDriver::Options::on_phase. Without the variable nobody is called.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace isthmus::launch {

struct TestFault {
    enum class Kind { kKill, kPoison } kind = Kind::kKill;
    std::string phase;
    std::uint64_t meeting = 0;
};

/// ERRORS  throws Fatal(kUsage) for words that are not of that form: a fault that never comes would
/// let a test pass.
std::optional<TestFault> parse_test_fault(const std::string&);

/// What on_phase is set to: empty without the variable. `poison` is called by the thread that
/// enters the phase.
std::function<void(std::string_view phase, std::uint64_t meeting)> fault_for_tests(
    std::function<void()> poison = {});

}  // namespace isthmus::launch
