#include "launch/meeting_place.hpp"

#include "launch/run_folder.hpp"
#include "net/address.hpp"

namespace isthmus::launch {

std::string read_coordinator_address(FileSystem& files, const Path& run_folder) {
    const Path file = run_folder / kAddressName;
    if (!files.exists(file)) return {};
    auto text = read_text(files, file, 4096);
    if (!text || !text->ends_with('\n')) return {};
    text->pop_back();
    return net::check_endpoint(*text) ? *text : std::string();
}

void write_coordinator_address(FileSystem& files, const Path& run_folder,
                               const std::string& endpoint) {
    write_run_file(files, run_folder / kAddressName, endpoint + "\n");
}

std::string listen_where_it_was(const std::string& configured, const std::string& old_endpoint) {
    const auto address = net::parse_host_port(configured);
    if (!address || address->port != 0 || !old_endpoint.starts_with(net::kTcp)) return configured;
    const auto old = net::parse_host_port(std::string_view(old_endpoint).substr(net::kTcp.size()));
    if (!old) return configured;
    return fmt::format("{}:{}", address->host, old->port);
}

}  // namespace isthmus::launch
