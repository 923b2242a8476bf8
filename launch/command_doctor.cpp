#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "launch/command.hpp"
#include "launch/doctor.hpp"

namespace isthmus::launch {

void add_doctor_command(CLI::App& app, CommandContext&) {
    auto* command = app.add_subcommand("doctor",
                                       "What this machine offers: processor, memory, "
                                       "disk, libraries, and what is missing for what");
    auto json = std::make_shared<bool>(false);
    command->add_flag("--json", *json, "one JSON object, as in each run's doctor.json");
    command->callback([json] {
        const DoctorReport report = examine(".");
        const std::string text = *json ? doctor_json(report) : doctor_text(report);
        std::fputs(text.c_str(), stdout);
    });
}

}  // namespace isthmus::launch
