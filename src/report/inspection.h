// `inspect`: what a job asks for, as text for people and as JSON for programs.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "profile/profile.h"

namespace stweaver {

std::string inspect_text(const Trace& trace, const Profile& profile, const Summary& summary);
nlohmann::ordered_json inspect_json(const Trace& trace, const Profile& profile, const Summary& summary);

}  // namespace stweaver
