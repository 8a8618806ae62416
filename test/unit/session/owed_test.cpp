#include "session/owed.h"

#include <catch2/catch.hpp>

using namespace pgweir::session;

namespace {

Owed owed(Answer answer) { return {.answer = answer, .fate = Fate::forward, .errand = Errand::none, .statement = nullptr, .unit = 0, .text = {}}; }

}  // namespace

TEST_CASE("answers are owed in the order in which they were asked for, over any growth of the ring", "[session]") {
  OwedQueue queue;
  std::size_t in = 0;
  std::size_t out = 0;
  for (int round = 0; round < 50; ++round) {
    for (int i = 0; i < round; ++i) queue.push({.answer = Answer::bind, .fate = Fate::forward, .errand = Errand::none, .statement = nullptr, .unit = 0, .text = std::to_string(in++)});
    for (int i = 0; i < round / 2; ++i) {
      REQUIRE(queue.front().text == std::to_string(out++));
      queue.pop();
    }
  }
  while (!queue.empty()) {
    REQUIRE(queue.front().text == std::to_string(out++));
    queue.pop();
  }
  CHECK(in == out);
}

TEST_CASE("an entry taken out of the middle leaves the order of the others", "[session]") {
  OwedQueue queue;
  for (Answer answer : {Answer::parse, Answer::bind, Answer::sync, Answer::execute}) queue.push(owed(answer));
  queue.erase(2);
  REQUIRE(queue.size() == 3);
  CHECK(queue[0].answer == Answer::parse);
  CHECK(queue[1].answer == Answer::bind);
  CHECK(queue[2].answer == Answer::execute);
}
