#include "advise/fit.h"

#include <string>
#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "advise/time.h"
#include "base/base.h"

namespace stweaver {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr std::string_view kHeader = "gpu,gpus,layers,hidden,heads,seq,tp,pp,mbs,gbs,iteration_ms\n";

/// Rows whose times the model itself made, with these constants.
std::vector<Measurement> rows_of(const Constants& truth) {
  std::string csv(kHeader);
  for (const int hidden : {1024, 2048, 4096})
    for (const int tp : {1, 2, 4})
      for (const int mbs : {1, 4})
        csv = text(csv, "A100,8,24,", hidden, ",16,1024,", tp, ",2,", mbs, ",64,1\n");
  std::vector<Measurement> rows = read_measurements(csv, "table").rows;
  for (Measurement& row : rows) row.seconds = step_time(row.job, truth).total;
  return rows;
}

TEST(Fit, FindsTheConstantsThatMadeTheRows) {
  Constants truth = known_constants("megatron-deepspeed");
  const Constants start = truth;
  truth.matrix_bf16 = 0.6;
  truth.layer = 5e-3;
  const std::vector<Measurement> rows = rows_of(truth);
  const Constants fitted = fit_constants(rows, {"matrix_bf16", "layer"}, start);
  EXPECT_NEAR(fitted.matrix_bf16, truth.matrix_bf16, 0.02);
  EXPECT_NEAR(fitted.layer, truth.layer, 2e-4);
}

TEST(Fit, RefusesAConstantThatDoesNotExist) {
  const std::vector<Measurement> rows = rows_of(known_constants("megatron-deepspeed"));
  EXPECT_THAT([&] { (void)fit_constants(rows, {"speed"}, {}); }, ThrowsMessage<Error>(HasSubstr("speed")));
}

TEST(Judge, TellsErrorRanksAndWhatTrustingThePredictionCosts) {
  std::vector<Measurement> rows = rows_of(known_constants("megatron-deepspeed"));
  rows.resize(3);
  for (Measurement& row : rows) row.job.configuration = rows.front().job.configuration;
  rows[0].seconds = 1;
  rows[1].seconds = 2;
  rows[2].seconds = 4;
  const std::vector<double> predicted = {2.2, 2, 4};
  for (Measurement& row : rows) row.model = "one";
  const Accuracy accuracy = judge(rows, predicted);
  EXPECT_NEAR(accuracy.mean, 0.4, 1e-9);
  EXPECT_DOUBLE_EQ(accuracy.median, 0);
  EXPECT_NEAR(accuracy.rank_correlation, 0.5, 1e-9);  // two of three change places
  EXPECT_NEAR(accuracy.loss, 1, 1e-9);                // the second is run, the first took half
}

TEST(Measurements, RefuseATableThatIsNone) {
  const auto read = [](const std::string& csv) { return [csv] { (void)read_measurements(csv, "t.csv"); }; };
  EXPECT_THAT(read(""), ThrowsMessage<Error>(HasSubstr("empty")));
  EXPECT_THAT(read("a,b\n1,2\n"), ThrowsMessage<Error>(HasSubstr("columns must be")));
  EXPECT_THAT(read(text(kHeader, "A100,8\n")), ThrowsMessage<Error>(HasSubstr("t.csv:2")));
  EXPECT_THAT(read(text(kHeader, "A100,x,24,1024,16,1024,1,2,1,64,1\n")),
              ThrowsMessage<Error>(HasSubstr("t.csv:2: gpus is no number")));
  EXPECT_THAT(read(text(kHeader, "A100,8,24,1024,16,1024,1,2,1,64,0\n")),
              ThrowsMessage<Error>(HasSubstr("no time")));
  EXPECT_THAT(read(text(kHeader, "\"A100,8\n")), ThrowsMessage<Error>(HasSubstr("quote")));
}

TEST(Measurements, LeaveOutWhatNoJobCanHave) {
  const Measurements measured =
      read_measurements(text(kHeader, "A100,8,24,1024,16,1024,3,2,1,64,1\n"), "t.csv");
  EXPECT_TRUE(measured.rows.empty());
  EXPECT_THAT(measured.left_out, testing::ElementsAre(HasSubstr("no multiple")));
}

}  // namespace
}  // namespace stweaver
