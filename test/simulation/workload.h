// What the clients of a run do: random units with random pauses, until they are told to finish.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sim_client.h"

namespace pgweir::sim {

/// How much of what, of 1000.
struct Habits {
  int think_max_us = 4000;
  int writes = 260;
  int hidden_writes = 25;
  int transactions = 90;
  int pipelines = 60;
  int settings = 40;
  int pins = 8;
  int slow = 20;
  int big = 15;
  int copies = 25;
  int several = 35;
  int errors = 25;
  int notifications = 10;
  int leaves = 12;
  int keys = 15;
};

class Workload {
 public:
  Workload(ClientWorld& world, Dice dice, Habits habits, int clients);

  void start();
  /// From now on every client ends what it is in, writes and reads once more, and leaves.
  void finish() noexcept { finishing_ = true; }
  /// Wakes those that had nothing to do, so that finish() reaches them.
  void nudge();
  bool finished() const noexcept;
  /// Who has not finished, for people.
  std::string unfinished() const;
  std::uint64_t answered() const noexcept;

 private:
  enum class Last : std::uint8_t { none, wrote, done };
  struct Actor {
    std::unique_ptr<SimClient> client;
    int steps_left = 0;  ///< Of the open transaction.
    Last last = Last::none;
    std::uint64_t wrote_on = 0;  ///< The connection on which its last write was sent.
    bool thinking = false;
  };

  void on_rest(Actor& actor);
  void act(Actor& actor);
  bool reads_only(const Actor& actor);
  void act_in_block(Actor& actor);
  void act_freely(Actor& actor);
  void act_last(Actor& actor);
  void send(Actor& actor, Unit unit);
  Unit autocommit_unit(SimClient& client);
  Unit without_answers_between(const std::function<Unit()>& plan);
  Unit pinning_unit(SimClient& client);

  ClientWorld& world_;
  Dice dice_;
  Habits habits_;
  bool finishing_ = false;
  std::vector<std::unique_ptr<Actor>> actors_;
};

}  // namespace pgweir::sim
