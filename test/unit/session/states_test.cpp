#include <catch2/catch.hpp>
#include <map>
#include <utility>

#include "session/client_state.h"
#include "session/server_state.h"

using namespace pgweir::session;

TEST_CASE("a server connection moves only as its drawing says", "[session]") {
  using enum ServerState;
  using E = ServerEvent;
  const std::map<std::pair<ServerState, E>, ServerState> table = {
      {{created, E::attached}, login},   {{login, E::logged_in}, identifying}, {{identifying, E::identified}, idle},
      {{idle, E::bound}, active},        {{idle, E::check}, testing},          {{active, E::unbound}, idle},
      {{active, E::dirty}, resetting},   {{testing, E::answered}, idle},       {{resetting, E::answered}, idle},
      {{idle, E::dedicated}, dedicated},
  };
  for (ServerState from : {created, login, identifying, idle, active, testing, resetting, dedicated, closed}) {
    for (E event : {E::attached, E::logged_in, E::identified, E::bound, E::unbound, E::dirty, E::check, E::answered, E::dedicated, E::lost}) {
      INFO(to_string(from) << " " << static_cast<int>(event));
      const auto row = table.find({from, event});
      if (event == E::lost) {
        CHECK(next(from, event) == closed);
      } else if (row == table.end()) {
        CHECK(next(from, event) == std::nullopt);
      } else {
        CHECK(next(from, event) == row->second);
      }
    }
  }
}

TEST_CASE("a client connection moves only as its drawing says", "[session]") {
  using enum ClientState;
  using E = ClientEvent;
  const std::map<std::pair<ClientState, E>, ClientState> table = {
      {{startup, E::startup_read}, authenticating},
      {{authenticating, E::authenticated}, welcoming},
      {{authenticating, E::console_opened}, console},
      {{welcoming, E::welcomed}, idle},
      {{welcoming, E::server_bound}, replicating},
      {{idle, E::message}, collecting},
      {{idle, E::server_bound}, active},
      {{collecting, E::unit_complete}, waiting},
      {{collecting, E::answered_here}, idle},
      {{waiting, E::server_bound}, active},
      {{waiting, E::answered_here}, idle},
      {{active, E::server_left}, idle},
      {{active, E::run_again}, waiting},
  };
  for (ClientState from : {startup, authenticating, welcoming, console, idle, collecting, waiting, active, replicating, closed}) {
    for (E event : {E::startup_read, E::authenticated, E::console_opened, E::welcomed, E::message, E::unit_complete, E::answered_here,
                    E::server_bound, E::run_again, E::server_left, E::quit}) {
      INFO(to_string(from) << " " << static_cast<int>(event));
      const auto row = table.find({from, event});
      if (event == E::quit) {
        CHECK(next(from, event) == closed);
      } else if (row == table.end()) {
        CHECK(next(from, event) == std::nullopt);
      } else {
        CHECK(next(from, event) == row->second);
      }
    }
  }
}
