#include "launch/test_faults.hpp"

#include <signal.h>

#include <chrono>
#include <cstdlib>
#include <sstream>
#include <thread>

#include "base/error.hpp"

namespace isthmus::launch {

namespace {

constexpr const char* kVariable = "ISTHMUS_TEST_FAULT";
/// What was said in this phase is on its way: ZeroMQ sends from a thread of its own.
constexpr std::chrono::milliseconds kSent{50};

}  // namespace

std::optional<TestFault> parse_test_fault(const std::string& text) {
    if (text.empty()) return std::nullopt;
    std::istringstream words(text);
    std::string kind, more;
    TestFault fault;
    const bool whole = (words >> kind >> fault.phase >> fault.meeting) && !(words >> more);
    if (!whole || (kind != "kill" && kind != "poison")) {
        throw fatal(ExitCode::kUsage, "{}=\"{}\": for tests; \"kill|poison PHASE MEETING\"",
                    kVariable, text);
    }
    fault.kind = kind == "kill" ? TestFault::Kind::kKill : TestFault::Kind::kPoison;
    return fault;
}

std::function<void(std::string_view, std::uint64_t)> fault_for_tests(std::function<void()> poison) {
    const char* text = std::getenv(kVariable);
    const auto fault = parse_test_fault(text == nullptr ? "" : text);
    if (!fault) return {};
    return [fault = *fault, poison = std::move(poison)](std::string_view phase, std::uint64_t at) {
        if (phase != fault.phase || at != fault.meeting) return;
        if (fault.kind == TestFault::Kind::kPoison) return poison();
        std::this_thread::sleep_for(kSent);
        ::raise(SIGKILL);
    };
}

}  // namespace isthmus::launch
