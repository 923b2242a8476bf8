#include "launch/emulated_links.hpp"

#include <atomic>
#include <future>
#include <thread>

#include "base/error.hpp"
#include "base/result.hpp"
#include "net/address.hpp"
#include "net/thin_link.hpp"

namespace isthmus::launch {

/// The link is made and run by its own thread, as its contract asks.
class EmulatedLinks::OneLink {
  public:
    OneLink(const net::ThinLinkOptions& options) {
        std::promise<Result<std::uint16_t>> promise;
        port_ = promise.get_future().share();
        thread_ = std::thread([this, options, p = std::move(promise)]() mutable {
            try {
                net::ThinLink link(options);
                p.set_value(link.port());
                link.run([this] { return stop_.load(); });
            } catch (const Fatal& error) {  // the constructor's
                p.set_value(Error{error.what()});
            }
        });
    }
    ~OneLink() {
        stop_ = true;
        thread_.join();
    }
    const Result<std::uint16_t>& port() const { return port_.get(); }

  private:
    std::atomic<bool> stop_{false};
    std::shared_future<Result<std::uint16_t>> port_;
    std::thread thread_;
};

EmulatedLinks::EmulatedLinks(const net::ShaperConfig& shape, Log& log) : shape_(shape), log_(log) {}
EmulatedLinks::~EmulatedLinks() = default;

std::string EmulatedLinks::through(const std::string& endpoint) {
    const std::lock_guard lock(mutex_);
    auto& link = links_[endpoint];
    if (!link) {
        const auto to = net::parse_host_port(std::string_view(endpoint).substr(
            endpoint.starts_with(net::kTcp) ? net::kTcp.size() : 0));
        if (!to) {
            log_.error("no emulated link to {}: {}", endpoint, to.error().message);
            links_.erase(endpoint);
            return {};
        }
        net::ThinLinkOptions options{.to_host = to->host, .to_port = to->port, .shape = shape_};
        options.shape.seed = shape_.seed + links_.size();
        options.say = [this, endpoint](const std::string& line) {
            log_.debug("emulated link to {}: {}", endpoint, line);
        };
        link = std::make_unique<OneLink>(options);
    }
    const auto& port = link->port();
    if (!port) {
        log_.error("no emulated link to {}: {}", endpoint, port.error().message);
        links_.erase(endpoint);
        return {};
    }
    return fmt::format("tcp://127.0.0.1:{}", *port);
}

}  // namespace isthmus::launch
