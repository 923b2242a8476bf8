#include "launch/operator_desk.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/config.hpp"
#include "base/error.hpp"
#include "launch/run_folder.hpp"

namespace isthmus::launch {

namespace {

using What = outer::Operate::What;

constexpr std::size_t kMaxWordsBytes = 1024;
/// Answers begin with one of these.
constexpr std::string_view kDone = "done: ", kRefused = "refused: ";

struct Verb {
    const char* name;
    What what;
    bool of_site;
};
constexpr Verb kVerbs[] = {{"drain", What::kDrain, true},
                           {"drop", What::kDrop, true},
                           {"pause", What::kPause, false},
                           {"resume", What::kResume, false}};

/// A socket's path has at most 107 bytes; through an open descriptor any folder is near.
Result<Descriptor> open_folder(const Path& folder) {
    Descriptor descriptor(::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (descriptor.get() < 0) {
        return Error{fmt::format("{}: {}", folder.string(), std::strerror(errno))};
    }
    return descriptor;
}

std::string socket_endpoint(const Descriptor& folder) {
    return fmt::format("ipc:///proc/self/fd/{}/{}", folder.get(), kControlSocketName);
}

std::string text_of(const net::Message& message) {
    const auto bytes = message.bytes();
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::span<const std::byte> bytes_of(const std::string& text) {
    return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace

Result<outer::Operate> parse_operation(const std::string& words) {
    const auto space = words.find(' ');
    const std::string name = words.substr(0, space);
    const std::string site = space == std::string::npos ? "" : words.substr(space + 1);
    for (const Verb& verb : kVerbs) {
        if (name != verb.name) continue;
        if (verb.of_site && site.empty()) return Error{fmt::format("{} needs a site's name", name)};
        if (!verb.of_site && !site.empty()) return Error{fmt::format("{} takes no site", name)};
        return outer::Operate{.what = verb.what, .site = site};
    }
    return Error{fmt::format("\"{}\" is none of drain SITE, drop SITE, pause, resume", name)};
}

std::string answer_of(const outer::Operate& operate) {
    switch (operate.what) {
        case What::kDrain:
            return fmt::format("site {} leaves after the next round that it takes part in",
                               operate.site);
        case What::kDrop:
            return fmt::format("site {} is dropped, its samples go to others; it may not return",
                               operate.site);
        case What::kRevoke:
            return fmt::format("the key of site {} is revoked", operate.site);
        case What::kPause:
            return "sites wait at their next meeting";
        case What::kResume:
            return "the run goes on";
    }
    return {};
}

Result<std::unique_ptr<OperatorDesk>> OperatorDesk::open(net::Context& context,
                                                         const Path& run_folder) {
    auto folder = open_folder(run_folder);
    if (!folder) return folder.error();
    auto link = net::Link::listen(context, net::LinkKind::kServer,
                                  {.max_message_bytes = kMaxWordsBytes}, socket_endpoint(*folder));
    if (!link) return link.error();
    return std::unique_ptr<OperatorDesk>(new OperatorDesk(std::move(*folder), std::move(*link)));
}

std::vector<outer::CoordinatorDriver::Options::Operation> OperatorDesk::take() {
    std::vector<outer::CoordinatorDriver::Options::Operation> operations;
    while (const auto message = link_->receive()) {
        const net::PeerId from = message->from();
        const auto answer = [this, from](std::string_view kind, const std::string& words) {
            link_->send(bytes_of(std::string(kind) + words), {}, from);
        };
        const auto operate = parse_operation(text_of(*message));
        if (!operate) {
            answer(kRefused, operate.error().message);
            continue;
        }
        const std::string& site = operate->site;
        if (!site.empty() && std::find(sites_.begin(), sites_.end(), site) == sites_.end()) {
            const std::string near = nearest_name(site, sites_);
            answer(kRefused, fmt::format("no site is called {}{}", site,
                                         near.empty() ? "" : "; did you mean " + near + "?"));
            continue;
        }
        operations.push_back(
            {.operate = *operate, .answer = [answer, o = *operate](const std::string&) {
                 answer(kDone, answer_of(o));
             }});
    }
    return operations;
}

Result<std::string> ask_coordinator(const Path& run_folder, const std::string& words,
                                    std::chrono::milliseconds limit) {
    const auto nobody = [&](std::string_view why) {
        return Error{fmt::format("{}: no coordinator of this run answers on this machine ({})",
                                 run_folder.string(), why)};
    };
    auto folder = open_folder(run_folder);
    if (!folder) return folder.error();
    std::error_code error;
    if (!std::filesystem::exists(run_folder / kControlSocketName, error))
        return nobody(fmt::format("there is no {}", kControlSocketName));
    net::Context context;
    auto link = net::Link::connect(context, net::LinkKind::kClient, socket_endpoint(*folder),
                                   {.max_message_bytes = kMaxWordsBytes});
    if (!link) return link.error();
    const auto end = std::chrono::steady_clock::now() + limit;
    if (!(*link)->send(bytes_of(words))) return nobody("nothing can be sent to it");
    while (true) {
        if (const auto message = (*link)->receive()) {
            const std::string answer = text_of(*message);
            if (answer.starts_with(kDone)) return answer.substr(kDone.size());
            if (answer.starts_with(kRefused)) return Error{answer.substr(kRefused.size())};
            return Error{"the coordinator's answer makes no sense: is it of this version?"};
        }
        const auto left =
            std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
        if (left.count() <= 0) return nobody(fmt::format("waited {} ms", limit.count()));
        const net::Interest interest{.link = link->get()};
        net::wait(std::span(&interest, 1), nullptr, left);
    }
}

}  // namespace isthmus::launch
