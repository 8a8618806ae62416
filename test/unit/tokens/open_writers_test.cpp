#include "tokens/open_writers.h"

#include <catch2/catch.hpp>

using pgweir::tokens::OpenWriters;

TEST_CASE("a table is being written as long as one of its writers is under way") {
  OpenWriters open;
  open.enter();
  open.add(1);
  open.add(2);
  open.enter();
  open.add(2);
  CHECK(open.transactions() == 2);
  CHECK(open.write(1));
  CHECK(open.write(2));
  CHECK_FALSE(open.write(3));
  open.remove(1);
  open.remove(2);
  open.leave();
  CHECK_FALSE(open.write(1));
  CHECK(open.write(2));
  open.remove(2);
  open.leave();
  CHECK_FALSE(open.write(2));
  CHECK(open.transactions() == 0);
}

TEST_CASE("a writer of unknown tables writes every table") {
  OpenWriters open;
  open.enter();
  open.add_all();
  CHECK(open.write(7));
  open.remove_all();
  open.leave();
  CHECK_FALSE(open.write(7));
}
