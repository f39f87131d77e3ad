#include "advise/fit.h"

#include <string>
#include <string_view>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "advise/space.h"
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
  truth.matrix = 0.6;
  truth.layer = 5e-3;
  const std::vector<Measurement> rows = rows_of(truth);
  const Constants fitted = fit_constants(rows, {"matrix", "layer"}, start);
  EXPECT_NEAR(fitted.matrix, truth.matrix, 0.02);
  EXPECT_NEAR(fitted.layer, truth.layer, 2e-4);
}

TEST(Fit, RefusesAConstantThatDoesNotExist) {
  const std::vector<Measurement> rows = rows_of(known_constants("megatron-deepspeed"));
  EXPECT_THAT([&] { (void)fit_constants(rows, {"speed"}, {}); }, ThrowsMessage<Error>(HasSubstr("speed")));
}

/// Configurations of one model, that differ in their micro-batches, and the seconds that they took.
std::vector<Measurement> configurations_with(const std::vector<double>& seconds, const std::string& model) {
  const Measurement first = rows_of(known_constants("megatron-deepspeed")).front();
  std::vector<Measurement> rows;
  for (const double time : seconds) {
    rows.push_back(first);
    rows.back().model = model;
    rows.back().seconds = time;
    rows.back().job.configuration.micro_batch = static_cast<int>(rows.size());
  }
  return rows;
}

TEST(Judge, TellsErrorRanksAndWhatTrustingThePredictionCosts) {
  const std::vector<Measurement> rows = configurations_with({1, 2, 4}, "one");
  const std::vector<double> predicted = {2.2, 2, 4};
  const Accuracy accuracy = judge(rows, predicted);
  EXPECT_NEAR(accuracy.mean, 0.4, 1e-9);
  EXPECT_DOUBLE_EQ(accuracy.median, 0);
  EXPECT_NEAR(accuracy.rank_correlation, 0.5, 1e-9);  // two of three change places
  EXPECT_NEAR(accuracy.loss, 1, 1e-9);                // the second is run, the first took half
}

TEST(Judge, RanksAConfigurationThatWasMeasuredTwiceOnce) {
  std::vector<Measurement> rows = configurations_with({1, 2, 4}, "one");
  // Another release was so fast that by rows the second configuration would be the best.
  rows.push_back(rows[1]);
  rows.back().seconds = 0.9;
  const std::vector<double> predicted = {1, 2, 4, 2};
  const Accuracy accuracy = judge(rows, predicted);
  EXPECT_EQ(accuracy.rows, 4U);
  EXPECT_DOUBLE_EQ(accuracy.rank_correlation, 1);
  EXPECT_DOUBLE_EQ(accuracy.loss, 0);
  rows.pop_back();
  rows.pop_back();
  EXPECT_EQ(judge(rows, std::vector<double>{1, 2}).models, 0U);
}

TEST(Judge, WeighsModelsByWhatTheirConfigurationsTell) {
  std::vector<Measurement> rows = configurations_with({1, 2, 3, 4, 5}, "many");
  std::vector<double> predicted = {1, 2, 3, 4, 5};
  for (const Measurement& row : configurations_with({1, 2, 3}, "few")) rows.push_back(row);
  predicted.insert(predicted.end(), {3, 2, 1});
  EXPECT_NEAR(judge(rows, predicted).rank_correlation, (4 * 1 + 2 * -1) / 6.0, 1e-9);
}

TEST(Measurements, RefuseATableThatIsNone) {
  const auto read = [](const std::string& csv) { return [csv] { (void)read_measurements(csv, "t.csv"); }; };
  EXPECT_THAT(read(""), ThrowsMessage<Error>(HasSubstr("empty")));
  EXPECT_THAT(read("a,b\n1,2\n"), ThrowsMessage<Error>(HasSubstr("it lacks model")));
  EXPECT_THAT(read(text(kHeader, "A100,8\n")), ThrowsMessage<Error>(HasSubstr("t.csv:2")));
  EXPECT_THAT(read(text(kHeader, "\"A100,8\n")), ThrowsMessage<Error>(HasSubstr("quote")));
}

TEST(Measurements, LeaveOutStepsOfNoTimeAndKeepTheOthers) {
  const std::string row = "A100,8,24,1024,16,1024,1,2,1,64,";
  const Measurements measured =
      read_measurements(text(kHeader, row, "0\n", row, "700\n", row, "-1\n"), "t.csv");
  ASSERT_EQ(measured.rows.size(), 1);
  EXPECT_EQ(measured.rows.front().line, 3);
  EXPECT_THAT(measured.left_out, testing::ElementsAre(HasSubstr("line 2: a step that takes no time"),
                                                      HasSubstr("line 4: a step that takes no time")));
}

TEST(Measurements, LeaveOutRowsWithACellThatCannotBeRead) {
  const auto why = [](const char* row) {
    const std::string good = "A100,8,24,1024,16,1024,1,2,1,64,700\n";
    const Measurements measured = read_measurements(text(kHeader, good, row, "\n", good), "t.csv");
    EXPECT_EQ(measured.rows.size(), 2) << row;
    return measured.left_out.at(0);
  };
  EXPECT_EQ(why("A100,x,24,1024,16,1024,1,2,1,64,700"), "line 3: gpus is no number: \"x\"");
  EXPECT_EQ(why("A100,8,24,1024,16,1024,1,2,1,64,n/a"), "line 3: iteration_ms is no number: \"n/a\"");
  EXPECT_EQ(why("A100,8,24,1024,16,1024,1,2,1,-64,700"),
            "line 3: gbs is no whole number that it can be: -64");
  EXPECT_THAT(why("A100,8,24,1024,0,1024,1,2,1,64,700"), HasSubstr("line 3: its model"));
}

TEST(Measurements, KnowColumnsByAnyCaseAndCellsWithBlanksAround) {
  const Measurements measured = read_measurements(
      "GPU, GPUs,layers,hidden,heads,seq,TP,pp,mbs,gbs, iteration_ms\n"
      " A100 , 8,24,1024,16,1024,1,2,1,64,\t700\n",
      "t.csv");
  ASSERT_EQ(measured.rows.size(), 1);
  EXPECT_EQ(measured.rows.front().job.configuration.gpus, 8);
  EXPECT_DOUBLE_EQ(measured.rows.front().seconds, 0.7);
}

TEST(Measurements, KnowPrecisionsByAnyCase) {
  const auto precision = [](const std::string& name) {
    const std::string csv = text("model,gpu,gpus,precision,gbs,mbs,seq,tp,pp,tokens_per_s_per_gpu\n",
                                 "llama3_8b,B200,8,", name, ",64,1,8192,1,1,10000\n");
    return read_measurements(csv, "t.csv").rows.at(0).job.configuration.precision;
  };
  EXPECT_EQ(precision("bf16"), Precision::kBf16);
  EXPECT_EQ(precision("BF16"), Precision::kBf16);
  EXPECT_EQ(precision("fp8-cs"), Precision::kFp8);
  EXPECT_EQ(precision("FP8-DS"), Precision::kFp8);
  EXPECT_EQ(precision("FP8-MX"), Precision::kMxfp8);
  EXPECT_EQ(precision("FP16"), Precision::kBf16);
  EXPECT_EQ(precision("mxfp8"), Precision::kMxfp8);
}

TEST(Measurements, TellWhatLayersAreMadeOf) {
  const auto read = [](const std::string& layers, const std::string& attention) {
    const std::string csv =
        text("gpu,gpus,layers,hidden,heads,seq,vocab,tp,pp,mbs,gbs,transformer_impl,attention_backend,",
             "peak_allocated_bytes\nH100,8,12,512,8,1024,50257,1,4,4,40,", layers, ",", attention, ",1e9\n");
    return read_measurements(csv, "t.csv").rows.at(0).job.configuration;
  };
  const Configuration fused = read("transformer_engine", ""), local = read("local", ""),
                      none = read("none", "flash");
  EXPECT_TRUE(fused.transformer_engine && fused.flash_attention && !fused.local_layers);
  EXPECT_TRUE(local.transformer_engine && !local.flash_attention && local.local_layers);
  EXPECT_TRUE(!none.transformer_engine && none.flash_attention && none.local_layers);
  EXPECT_FALSE(read("", "unfused").flash_attention);
}

TEST(Measurements, TellThePrecisionAndTheArgumentsOfAPeak) {
  const auto read = [](const std::string& precision, const std::string& arguments) {
    const std::string csv = text(
        "gpu,gpus,layers,hidden,heads,seq,vocab,tp,pp,vp,mbs,gbs,precision,other_args,peak_allocated_bytes\n",
        "H100,8,12,512,8,1024,50257,1,4,3,4,40,", precision, ",", arguments, ",1e9\n");
    return read_measurements(csv, "t.csv").rows.at(0).job;
  };
  const Job plain = read("bf16", "");
  EXPECT_EQ(plain.configuration.precision, Precision::kBf16);
  EXPECT_FALSE(plain.configuration.attention_mask);
  EXPECT_TRUE(plain.configuration.grouped_experts);
  EXPECT_EQ(read("FP8-CS", "").configuration.precision, Precision::kFp8);
  EXPECT_EQ(read("bf16+fp8", "fp8-recipe=mxfp8").configuration.precision, Precision::kMxfp8);
  const Job told = read("bf16+fp8",
                        "microbatch-group-size-per-virtual-pipeline-stage=5;qk-layernorm=True;"
                        "decoder-first-pipeline-num-layers=2;decoder-last-pipeline-num-layers=4");
  EXPECT_EQ(told.configuration.precision, Precision::kFp8);
  EXPECT_EQ(told.configuration.rounds, 5);
  EXPECT_EQ(told.configuration.first_layers, 2);
  EXPECT_EQ(told.configuration.last_layers, 4);
  EXPECT_TRUE(told.model.query_norm);
  EXPECT_TRUE(told.configuration.attention_mask);
  EXPECT_FALSE(told.configuration.grouped_experts);
}

TEST(Measurements, TellWhatModulesAPeakWasMeasuredWith) {
  const auto read = [](const std::string& modules, const std::string& arguments) {
    const std::string csv = text(
        "gpu,gpus,layers,hidden,heads,seq,vocab,tp,pp,mbs,gbs,transformer_impl,other_args,peak_allocated_"
        "bytes\nH100,8,12,512,8,1024,50257,1,4,4,40,",
        modules, ",", arguments, ",1e9\n");
    return read_measurements(csv, "t.csv").rows.at(0).job.configuration;
  };
  const Configuration plain = read("transformer_engine", "");
  EXPECT_TRUE(plain.compiled && plain.fused_gate && plain.flash_attention && !plain.legacy);
  EXPECT_EQ(plain.loss, Loss::kMegatron);
  EXPECT_EQ(read("", "cross-entropy-fusion-impl=te").loss, Loss::kTransformerEngine);
  EXPECT_FALSE(read("", "no-bias-swiglu-fusion=True").fused_gate);
  EXPECT_FALSE(read("local", "").flash_attention);
  const Configuration legacy = read("legacy", "no-gradient-accumulation-fusion=True");
  EXPECT_TRUE(legacy.legacy && legacy.flash_attention && legacy.dropout);
  EXPECT_FALSE(legacy.compiled || legacy.fused_gradients);
  EXPECT_EQ(legacy.loss, Loss::kMegatron);
}

TEST(Measurements, ReadPeaksAsOthersPublishThem) {
  const auto read = [](const char* cells) {
    return read_measurements(text("model,gpu,gpus,seq,mbs,gbs,tp,pp,ep,sharding,recompute,allocator,where,"
                                  "peak_allocated,unit,outcome,"
                                  "tokens_per_s_per_gpu,precision\n",
                                  cells, "\n"),
                             "t.csv");
  };
  const Measurement first = read(
                                "llama2_7b,A100-80GB,8,4096,4,128,2,2,1,distributed_optimizer + optimizer "
                                "offload,full:block half of the "
                                "layers,default,GPUs 0-3 (first stage),13.5,GiB,ok,,BF16")
                                .rows.at(0);
  EXPECT_TRUE(first.job.configuration.offload_optimizer);
  EXPECT_EQ(first.job.configuration.zero, 1);
  EXPECT_EQ(first.memory->stage, 0);
  EXPECT_DOUBLE_EQ(first.memory->bytes, 13.5 * 1024 * 1024 * 1024);
  EXPECT_EQ(recomputed_layers(first.job), 16);  // half of the model is all of a stage
  const Measurement experts = read(
                                  "moonlight_16b,H100,8,4096,1,4,2,1,8,distributed_optimizer,selective:core_"
                                  "attn,unstated,worst rank,36.6,GB,"
                                  "ok,1,BF16")
                                  .rows.at(0);
  EXPECT_EQ(experts.job.configuration.recompute, Recompute::kNone);  // flash attention keeps no scores
  EXPECT_EQ(experts.job.configuration.expert_tp, 1);  // eight ranks have an expert of their own each
  EXPECT_EQ(experts.memory->stage, -1);
  EXPECT_DOUBLE_EQ(experts.memory->bytes, 36.6e9);

  const auto why_not_read = [&read](const char* recompute, const char* allocator, const char* peak,
                                    const char* unit, const char* outcome) {
    return read(text("llama2_7b,A100,8,4096,4,128,2,2,1,none,", recompute, ",", allocator, ",rank 0,", peak,
                     ",", unit, ",", outcome, ",,BF16")
                    .c_str())
        .left_out.at(0);
  };
  EXPECT_EQ(why_not_read("none", "default", "70", "GB", "oom"), "line 2: the job did not run: oom");
  EXPECT_THAT(why_not_read("none", "gmlake", "70", "GB", "ok"), HasSubstr("what gmlake allocates"));
  EXPECT_THAT(why_not_read("selective:mlp", "default", "70", "GB", "ok"), HasSubstr("mlp is recomputed"));
  EXPECT_THAT(why_not_read("SELECTIVE:mlp", "default", "70", "GB", "ok"), HasSubstr("mlp is recomputed"));
  EXPECT_THAT(why_not_read("none", "default", "70", "MB", "ok"), HasSubstr("GB or GiB, and not in MB"));
  EXPECT_EQ(why_not_read("none", "default", "", "GB", "ok"), "line 2: peak_allocated is not given");
}

TEST(Measurements, HaveThePrecisionsOfTheirGpu) {
  const Measurements measured = read_measurements(
      "model,gpu,gpus,precision,gbs,mbs,seq,tp,pp,tokens_per_s_per_gpu\nllama3_70b,A100,64,FP8,128,1,4096,4,"
      "4,500\n",
      "t.csv");
  EXPECT_THAT(measured.left_out, testing::ElementsAre(HasSubstr("line 2: no units for fp8")));
}

TEST(Measurements, PeaksAreOfWhatIsKnownOrLeftOut) {
  const auto read = [](const char* sharding, const char* precision) {
    return read_measurements(text("model,gpu,gpus,seq,mbs,gbs,tp,pp,sharding,precision,peak_allocated_bytes\n"
                                  "llama3_8b,H100,8,4096,1,64,1,1,",
                                  sharding, ",", precision, ",70000000000\n"),
                             "t.csv");
  };
  const auto zero = [&read](const char* name) { return read(name, "").rows.at(0).job.configuration.zero; };
  EXPECT_EQ(zero(""), 0);  // as Megatron-LM has it
  EXPECT_EQ(zero("none"), 0);
  EXPECT_EQ(zero("distributed_optimizer"), 1);
  EXPECT_EQ(zero("fsdp2"), 3);
  EXPECT_THAT(read("zero2", "").left_out.at(0), HasSubstr("no sharding is called zero2"));
  for (const char* wide : {"", "bf16", "BF16", "fp16"})
    EXPECT_EQ(read("none", wide).rows.at(0).job.configuration.precision, Precision::kBf16) << wide;
  const auto gradients = [&read](const char* sharding, const char* precision) {
    return read(sharding, precision).rows.at(0).job.configuration.gradient_bytes;
  };
  EXPECT_EQ(gradients("distributed_optimizer", "fp16"), 2);
  EXPECT_EQ(gradients("distributed_optimizer", "bf16"), 4);
  EXPECT_EQ(gradients("none", "fp16"), 4);
  EXPECT_EQ(read("none", "bf16+fp8").rows.at(0).job.configuration.precision, Precision::kFp8);
  for (const char* unknown : {"fp32", "fp32+fp8", "int8"})
    EXPECT_THAT(read("none", unknown).left_out.at(0), HasSubstr("no precision is called")) << unknown;
}

TEST(Measurements, ShareParametersAmongRanksThatThereAre) {
  const auto read = [](const char* fsdp) {
    return read_measurements(text("model,gpu,gpus,precision,gbs,mbs,seq,tp,pp,fsdp,tokens_per_s_per_gpu\n"
                                  "llama3_8b,H100,8,BF16,64,1,8192,1,1,",
                                  fsdp, ",10000\n"),
                             "t.csv");
  };
  EXPECT_EQ(read("4").rows.at(0).job.configuration.shard, 4);
  EXPECT_EQ(read("0").rows.at(0).job.configuration.zero, read("1").rows.at(0).job.configuration.zero);
  for (const char* none : {"3", "16"})
    EXPECT_THAT(read(none).left_out.at(0), HasSubstr(text("shared by ", none, " of 8 ranks")));
}

TEST(Measurements, PeaksOfATaskAreThoseOfARecipe) {
  const auto read = [](const char* task, const char* precision, const char* arguments,
                       const char* gradients) {
    return read_measurements(text("model,gpu,gpus,seq,mbs,gbs,tp,pp,task,precision,other_args,gradient_bytes,"
                                  "peak_allocated_bytes\nllama3_8b,H100,8,4096,1,64,1,1,",
                                  task, ",", precision, ",", arguments, ",", gradients, ",70000000000\n"),
                             "t.csv")
        .rows.at(0)
        .job.configuration;
  };
  const Configuration recipe = read("sft", "FP8-CS", "", "");
  EXPECT_EQ(recipe.weight_bytes, 1);
  EXPECT_EQ(recipe.gradient_bytes, 2);
  EXPECT_EQ(recipe.loss, Loss::kTransformerEngine);
  EXPECT_TRUE(recipe.rotary && !recipe.dropout);
  EXPECT_EQ(read("sft", "BF16", "", "").weight_bytes, 2);
  EXPECT_EQ(read("sft", "BF16", "", "4").gradient_bytes, 4);
  EXPECT_EQ(read("", "BF16", "", "").gradient_bytes, 4);
  EXPECT_EQ(read("sft", "BF16", "hidden-dropout=0.0", "").gradient_bytes, 4);
}

TEST(Measurements, PeaksOfPartsAndGroupsThatNoModelKnowsAreLeftOut) {
  const auto why = [](const char* recompute, const char* modules, const char* method, const char* layers) {
    return read_measurements(text("model,gpu,gpus,seq,mbs,gbs,tp,pp,recompute,recompute_modules,"
                                  "recompute_method,recompute_layers,peak_allocated_bytes\n"
                                  "llama3_8b,H100,8,4096,1,64,1,1,",
                                  recompute, ",", modules, ",", method, ",", layers, ",70000000000\n"),
                             "t.csv")
        .left_out;
  };
  EXPECT_THAT(why("selective", "", "", ""), testing::IsEmpty());
  EXPECT_THAT(why("selective", "core_attn", "", ""), testing::IsEmpty());
  EXPECT_THAT(why("selective", "mlp layernorm", "", ""),
              testing::ElementsAre(HasSubstr("where mlp+layernorm is recomputed")));
  EXPECT_THAT(why("Full", "", "uniform", "1"), testing::IsEmpty());
  EXPECT_THAT(why("full", "", "uniform", "4"),
              testing::ElementsAre(HasSubstr("where 4 layers are recomputed together")));
}

TEST(Measurements, WordsOfTorchtitanAreKnownByAnyCaseOrLeaveTheirRowOut) {
  const auto read = [](const char* checkpointing, const char* float8, const char* schedule) {
    return read_measurements(text("model,gpu,gpus,local_batch,gbs,seq,tp,pp,tokens_per_s_per_gpu,"
                                  "activation_checkpointing,float8,pp_schedule\n"
                                  "llama31_8b,H100,8,8,32,8192,1,2,100,",
                                  checkpointing, ",", float8, ",", schedule, "\n"),
                             "t.csv");
  };
  const Configuration known = read("Full", "Rowwise", "Interleaved1F1B").rows.at(0).job.configuration;
  EXPECT_EQ(known.recompute, Recompute::kFull);
  EXPECT_EQ(known.precision, Precision::kFp8Rowwise);
  EXPECT_EQ(known.virtual_stages, 2);
  const Configuration plain = read("", "", "").rows.at(0).job.configuration;
  EXPECT_EQ(plain.recompute, Recompute::kNone);
  EXPECT_EQ(plain.precision, Precision::kBf16);
  EXPECT_EQ(plain.virtual_stages, 1);
  EXPECT_EQ(read("selective_op", "", "").rows.at(0).job.configuration.recompute, Recompute::kOperators);
  EXPECT_THAT(read("op", "", "").left_out.at(0),
              HasSubstr("no activation_checkpointing is called op; there are none"));
  EXPECT_THAT(read("", "mxfp8", "").left_out.at(0), HasSubstr("no float8 is called mxfp8"));
  EXPECT_THAT(read("", "", "GPipe").left_out.at(0), HasSubstr("no pp_schedule is called GPipe"));
}

TEST(Measurements, TorchtitanCompilesTheLossSince2025) {
  const auto read = [](const char* date, int compile) {
    return read_measurements(
               text("model,gpu,gpus,local_batch,gbs,seq,tp,pp,tokens_per_s_per_gpu,date,compile\n"
                    "llama31_8b,H100,8,1,8,8192,1,1,100,",
                    date, ",", compile, "\n"),
               "t.csv")
        .rows.at(0)
        .job.configuration.loss;
  };
  EXPECT_EQ(read("2024-12", 1), Loss::kPyTorch);
  EXPECT_EQ(read("2025-06", 1), Loss::kCompiled);
  EXPECT_EQ(read("2025-06", 0), Loss::kPyTorch);
}

TEST(Measurements, TellHowTheLossIsComputed) {
  const auto read = [](const char* loss) {
    return read_measurements(text("model,gpu,gpus,local_batch,gbs,seq,tp,pp,tokens_per_s_per_gpu,loss\n"
                                  "llama31_8b,H100,8,1,8,8192,1,1,100,",
                                  loss, "\n"),
                             "t.csv");
  };
  EXPECT_EQ(read("").rows.at(0).job.configuration.loss, Loss::kPyTorch);
  EXPECT_EQ(read("pytorch").rows.at(0).job.configuration.loss, Loss::kPyTorch);
  EXPECT_EQ(read("compiled").rows.at(0).job.configuration.loss, Loss::kCompiled);
  EXPECT_EQ(read("fused").rows.at(0).job.configuration.loss, Loss::kTransformerEngine);
  EXPECT_THAT(read("best").left_out, testing::ElementsAre(HasSubstr("no loss is called best")));
}

TEST(Measurements, GiveAModelByItsNameOrItsShape) {
  const auto read = [](const char* model) {
    return read_measurements(text("model,layers,hidden,heads,vocab,swiglu,gpu,gpus,local_batch,gbs,seq,tp,pp,"
                                  "tokens_per_s_per_gpu\n",
                                  model, ",24,2048,16,50368,0,A100,8,1,8,2048,1,1,100\n"),
                             "t.csv")
        .rows.at(0);
  };
  EXPECT_EQ(read("llama31_8b").job.model.hidden, 4096);
  const Measurement mine = read("mine");
  EXPECT_EQ(mine.model, "mine");
  EXPECT_EQ(mine.job.model.hidden, 2048);
  EXPECT_FALSE(mine.job.model.gated_mlp);
  EXPECT_EQ(read("").model, "gpt-24x2048");
  const char* const unknown =
      "model,gpu,gpus,local_batch,gbs,seq,tp,pp,tokens_per_s_per_gpu\nmine,A100,8,1,8,2048,1,1,100\n";
  EXPECT_THAT(read_measurements(unknown, "t.csv").left_out,
              testing::ElementsAre(HasSubstr("mine: no model")));
}

TEST(Measurements, PipelinesOfTorchtitanCutABatchInAsManyPiecesAsStages) {
  const Measurements measured = read_measurements(
      "model,gpu,gpus,local_batch,gbs,seq,tp,pp,tokens_per_s_per_gpu\nllama31_405b,H100,512,32,256,8192,8,8,"
      "100\n",
      "t.csv");
  ASSERT_EQ(measured.rows.size(), 1U);
  EXPECT_EQ(measured.rows[0].job.configuration.micro_batch, 4);
  EXPECT_EQ(micro_batches(measured.rows[0].job.configuration), 8);
}

/// What the advisor proposes for torchtitan can be measured, and put into a table.
TEST(Measurements, OfTorchtitanAreOfTheSameModulesAsAdvice) {
  for (const auto& [model, ep] : {std::pair("llama3_8b", "1"), std::pair("gpt2_1p5b", "1"),
                                  std::pair("qwen15_moe_a27b", "1"), std::pair("qwen15_moe_a27b", "4")}) {
    const Measurements measured =
        read_measurements(text("model,gpu,gpus,local_batch,gbs,seq,tp,pp,ep,compile,tokens_per_s_per_gpu\n",
                               model, ",h100,8,1,16,4096,1,1,", ep, ",0,100\n"),
                          "t.csv");
    ASSERT_EQ(measured.rows.size(), 1U) << measured.left_out.front();
    Space space;
    space.model = known_model(model);
    space.gpu = known_gpu("h100");
    space.gpus = 8;
    space.sequence = 4096;
    space.global_batch = 16;
    space.modules = Modules::kPyTorch;
    const Job advised = job_named(space, {{"dp", "8"}, {"ep", ep}, {"zero", "3"}});
    EXPECT_DOUBLE_EQ(step_time(measured.rows[0].job, {}).total, step_time(advised, {}).total) << model << ep;
  }
}

/// Megatron-LM reduces them in fp32 for bf16 (training/arguments.py), and its recipes say otherwise.
TEST(Measurements, OfMegatronHaveGradientsAsWideAsTheJobReducesThem) {
  const auto read = [](const char* column, const char* cell) {
    return read_measurements(text("model,gpu,gpus,precision,gbs,mbs,seq,tp,pp,tokens_per_s_per_gpu,", column,
                                  "\nllama3_8b,H100,8,BF16,128,1,8192,1,1,100,", cell, "\n"),
                             "t.csv")
        .rows.at(0)
        .job.configuration.gradient_bytes;
  };
  EXPECT_EQ(read("task", ""), 4);
  EXPECT_EQ(read("task", "pretrain"), 2);
  EXPECT_EQ(read("gradient_bytes", "2"), 2);
}

TEST(Measurements, NamedModelsMaySayWhatIsRecomputed) {
  const auto read = [](const char* what, const char* layers) {
    return read_measurements(text("model,gpu,gpus,precision,gbs,mbs,seq,tp,pp,tokens_per_s_per_gpu,recompute,"
                                  "recompute_layers\nllama3_8b,H100,8,BF16,128,1,8192,1,1,100,",
                                  what, ",", layers, "\n"),
                             "t.csv")
        .rows.at(0)
        .job;
  };
  EXPECT_EQ(read("", "").configuration.recompute, Recompute::kNone);
  EXPECT_EQ(read("selective", "0").configuration.recompute, Recompute::kSelective);
  EXPECT_EQ(recomputed_layers(read("full", "5")), 5);
}

TEST(Measurements, LeaveOutWhatNoJobCanHave) {
  const Measurements measured =
      read_measurements(text(kHeader, "A100,8,24,1024,16,1024,3,2,1,64,1\n"), "t.csv");
  EXPECT_TRUE(measured.rows.empty());
  EXPECT_THAT(measured.left_out, testing::ElementsAre(HasSubstr("no multiple")));
}

}  // namespace
}  // namespace stweaver
