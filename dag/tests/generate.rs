//! Generators: counts and structure against closed formulas, costs, reproducibility, and bad parameters.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use mdts_dag::generate::{
    self, Chain, Cholesky, Costs, Epigenomics, ErdosRenyi, Fft, ForkJoin, GaussianElimination, Generator,
    Independent, Layered, Montage,
};
use mdts_dag::{Error, FlatGraph, JobGraph, TaskId};
use proptest::prelude::*;

/// Tasks, dependencies and levels.
fn size(job: &JobGraph) -> (usize, usize, usize) {
    (job.len(), job.dependency_count(), job.freeze().depth())
}

fn from_text(text: &str) -> JobGraph {
    generate::from_text(text, &mut generate::seeded(7)).unwrap()
}

fn kinds(job: &JobGraph) -> BTreeMap<&str, usize> {
    let mut kinds = BTreeMap::new();
    for task in job.tasks() {
        *kinds.entry(&*task.kind).or_default() += 1;
    }
    kinds
}

fn parents(job: &JobGraph, task: &str) -> Vec<String> {
    let id = job.find(task).unwrap_or_else(|| panic!("no task {task}"));
    let mut names: Vec<String> = job.parents(id).map(|p| job.task(p).name.to_string()).collect();
    names.sort();
    names
}

fn children(job: &JobGraph, task: &str) -> usize {
    job.children(job.find(task).unwrap()).count()
}

/// Everything that makes up a graph, as one number.
fn fingerprint(job: &JobGraph) -> u64 {
    let mut hasher = DefaultHasher::new();
    for task in job.tasks() {
        format!("{task:?}").hash(&mut hasher);
    }
    for file in job.files() {
        format!("{file:?}").hash(&mut hasher);
    }
    for dependency in job.dependencies() {
        format!("{dependency:?}").hash(&mut hasher);
    }
    hasher.finish()
}

#[test]
fn chain_and_independent() {
    for n in [1, 2, 17] {
        assert_eq!(size(&from_text(&format!("chain:tasks={n}"))), (n, n - 1, n));
        assert_eq!(size(&from_text(&format!("independent:tasks={n}"))), (n, 0, 1));
    }
}

#[test]
fn fork_join_counts() {
    for (stages, width) in [(1, 1), (1, 5), (4, 1), (3, 8)] {
        let job = from_text(&format!("fork-join:stages={stages},width={width}"));
        assert_eq!(size(&job), (stages * (width + 1) + 1, 2 * stages * width, 2 * stages + 1));
        assert_eq!(parents(&job, "barrier1").len(), width);
        assert_eq!(parents(&job, "barrier0").len(), 0);
    }
}

#[test]
fn fft_counts_and_degrees() {
    for log in 1..8 {
        let n: usize = 1 << log;
        let job = from_text(&format!("fft:points={n}"));
        assert_eq!(size(&job), (2 * n - 1 + n * log, 2 * n - 2 + 2 * n * log, 2 * log + 1));
        assert_eq!(kinds(&job), BTreeMap::from([("call", 2 * n - 1), ("butterfly", n * log)]));
        for id in job.task_ids() {
            let expected = match &*job.task(id).name {
                "call1" => 0,
                name if name.starts_with("call") => 1,
                _ => 2,
            };
            assert_eq!(job.parents(id).count(), expected, "{}", job.task(id).name);
            assert!(matches!(job.children(id).count(), 0 | 2), "two children, or an exit");
        }
    }
    let job = from_text("fft:points=4");
    assert_eq!(parents(&job, "butterfly0_2"), ["call6", "call7"]);
    assert_eq!(parents(&job, "butterfly1_1"), ["butterfly0_1", "butterfly0_3"]);
}

#[test]
fn gaussian_elimination_counts_and_structure() {
    for m in 2..20 {
        let job = from_text(&format!("gaussian-elimination:size={m}"));
        assert_eq!(size(&job), ((m * m + m - 2) / 2, m * m - m - 1, 2 * (m - 1)));
        assert_eq!(kinds(&job), BTreeMap::from([("pivot", m - 1), ("update", m * (m - 1) / 2)]));
    }
    let job = from_text("gaussian-elimination:size=5");
    assert_eq!(job.len(), 14, "the example of the literature");
    assert_eq!(parents(&job, "pivot2"), ["update1_2"]);
    assert_eq!(parents(&job, "update2_4"), ["pivot2", "update1_4"]);
    assert_eq!(children(&job, "pivot1"), 4);
}

#[test]
fn cholesky_counts_kinds_and_structure() {
    for t in 1..12 {
        let job = from_text(&format!("cholesky:tiles={t}"));
        assert_eq!(size(&job), (t * (t + 1) * (t + 2) / 6, t * (t - 1) * (t + 1) / 2, 3 * t - 2));
        let pairs = t * (t - 1) / 2;
        let triples = t * (t - 1) * t.saturating_sub(2) / 6;
        let expected = [("POTRF", t), ("TRSM", pairs), ("SYRK", pairs), ("GEMM", triples)];
        assert_eq!(kinds(&job), expected.into_iter().filter(|(_, n)| *n > 0).collect());
    }
    let job = from_text("cholesky:tiles=4");
    assert_eq!(parents(&job, "GEMM_3_2_1"), ["GEMM_3_2_0", "TRSM_2_1", "TRSM_3_1"]);
    assert_eq!(parents(&job, "POTRF_2"), ["SYRK_2_1"]);
    assert_eq!(parents(&job, "TRSM_3_2"), ["GEMM_3_2_1", "POTRF_2"]);
    assert_eq!(parents(&job, "POTRF_0").len(), 0);
}

#[test]
fn cholesky_shares_work_by_flops() {
    let job = from_text("cholesky:tiles=5,spread=0,mean-seconds=6");
    let flat = job.freeze();
    let work = |name: &str| flat.work(job.find(name).unwrap());
    let trsm = work("TRSM_1_0");
    for (name, flops) in [("POTRF_0", 1.0 / 3.0), ("SYRK_1_0", 1.0), ("GEMM_2_1_0", 2.0)] {
        assert!((work(name) / trsm - flops).abs() < 1e-12, "{name}");
    }
    let mean = flat.tasks().map(|t| flat.work(t)).sum::<f64>() / flat.len() as f64;
    assert!((mean - 6.0).abs() < 1e-9, "{mean}");
}

#[test]
fn montage_counts_kinds_and_files() {
    for (bands, images, ratio) in [(3, 4, 1.5), (1, 2, 0.5), (2, 30, 4.0), (3, 5, 100.0)] {
        let text = format!("montage:bands={bands},images={images},overlaps-per-image={ratio}");
        let job = from_text(&text);
        let overlaps = ((images as f64 * ratio).round() as usize).min(images * (images - 1) / 2);
        let viewers = bands + usize::from(bands > 1);
        let expected = [
            ("mProject", bands * images),
            ("mDiffFit", bands * overlaps),
            ("mConcatFit", bands),
            ("mBgModel", bands),
            ("mBackground", bands * images),
            ("mImgtbl", bands),
            ("mAdd", bands),
            ("mViewer", viewers),
        ];
        assert_eq!(kinds(&job), BTreeMap::from(expected), "{text}");
        let to_viewers = if bands > 1 { 2 } else { 1 };
        assert_eq!(job.dependency_count(), bands * (4 * images + 3 * overlaps + 2 + to_viewers), "{text}");
    }
    let job = from_text("montage:bands=3,images=4,overlaps-per-image=1.5");
    assert_eq!((job.len(), job.dependency_count()), (58, 114), "as the real mosaic of 0.05 degrees");
    assert_eq!(job.freeze().depth(), 8);
    assert_eq!(parents(&job, "mDiffFit_1_1").len(), 2);
    assert_eq!(parents(&job, "mBackground_2_3"), ["mBgModel_2", "mProject_2_3"]);
    assert_eq!(parents(&job, "mAdd_1").len(), 5);
    assert_eq!(parents(&job, "mViewer_color"), ["mAdd_1", "mAdd_2", "mAdd_3"]);
}

#[test]
fn epigenomics_counts_kinds_and_files() {
    for (sequences, chunks) in [(1, 1), (1, 9), (4, 3)] {
        let job = from_text(&format!("epigenomics:sequences={sequences},chunks={chunks}"));
        let each = sequences * chunks;
        let expected = [
            ("fastqSplit", sequences),
            ("filterContams", each),
            ("sol2sanger", each),
            ("fastq2bfq", each),
            ("map", each),
            ("mapMerge", sequences + 1),
            ("maqIndex", 1),
            ("pileup", 1),
        ];
        assert_eq!(kinds(&job), BTreeMap::from(expected));
        let tasks = sequences * (4 * chunks + 2) + 3;
        assert_eq!(size(&job), (tasks, sequences * (5 * chunks + 1) + 2, 9));
    }
    let job = from_text("epigenomics:sequences=1,chunks=9");
    assert_eq!((job.len(), job.dependency_count()), (41, 48), "as the real workflow of nine chunks");
    assert_eq!(parents(&job, "map_1_4"), ["fastq2bfq_1_4"]);
    assert_eq!(children(&job, "fastqSplit_1"), 9);
    assert!(job.files().iter().all(|file| file.bytes >= 1.0 && file.bytes.fract() == 0.0));
}

#[test]
fn run_times_of_a_kind_have_their_median() {
    let job = from_text("epigenomics:sequences=4,chunks=500");
    let flat = job.freeze();
    for (kind, median) in [("map", 38.0), ("filterContams", 14.6), ("fastq2bfq", 1.2)] {
        let mut seconds: Vec<f64> =
            job.task_ids().filter(|t| &*job.task(*t).kind == kind).map(|t| flat.work(t)).collect();
        seconds.sort_by(f64::total_cmp);
        let found = seconds[seconds.len() / 2];
        assert!((found / median - 1.0).abs() < 0.1, "{kind}: {found}");
    }
}

#[test]
fn layers_follow_the_shape() {
    for shape in [0.25, 1.0, 4.0] {
        let spec = Layered { tasks: 10_000, shape, ..Layered::default() };
        let flat = spec.generate(&mut generate::seeded(3)).unwrap().freeze();
        let depth = flat.depth() as f64;
        let expected = 100.0 / shape;
        assert!((depth / expected - 1.0).abs() < 0.2, "shape {shape}: {depth} levels, expected {expected}");
    }
    let even = Layered { tasks: 100, regularity: 1.0, ..Layered::default() };
    let flat = even.generate(&mut generate::seeded(3)).unwrap().freeze();
    assert_eq!(mdts_dag::analysis::level_widths(&flat), [10; 10]);
}

#[test]
fn density_and_jump_of_layers() {
    let mean = |density: f64, jump: usize| {
        let spec = Layered { tasks: 10_000, density, jump, max_parents: 1000, ..Layered::default() };
        let flat = spec.generate(&mut generate::seeded(3)).unwrap().freeze();
        let furthest = flat
            .tasks()
            .flat_map(|t| flat.parents(t).iter().map(move |p| (t, *p)))
            .map(|(t, p)| flat.level(t) - flat.level(p))
            .max();
        (flat.edge_count() as f64 / flat.len() as f64, furthest.unwrap())
    };
    let (sparse, one_up) = mean(0.0, 1);
    assert!(one_up == 1 && (0.98..1.0).contains(&sparse), "a tree: {sparse}");
    let (dense, four_up) = mean(0.4, 4);
    assert_eq!(four_up, 4);
    assert!((dense / 21.5 - 1.0).abs() < 0.15, "1 + 0.4 * 100 / 2, wide layers weigh more: {dense}");
}

#[test]
fn degree_of_uniform_graphs() {
    for degree in [0.5, 4.0] {
        let spec = ErdosRenyi { tasks: 20_000, degree, ..ErdosRenyi::default() };
        let job = spec.generate(&mut generate::seeded(5)).unwrap();
        let found = job.dependency_count() as f64 / job.len() as f64;
        assert!((found / degree - 1.0).abs() < 0.05, "{found}, expected {degree}");
    }
    let (tasks, edges) = (30, |degree: f64| from_text(&format!("erdos-renyi:tasks=30,degree={degree}")));
    assert_eq!(edges(0.0).dependency_count(), 0);
    assert_eq!(edges(1e6).dependency_count(), tasks * (tasks - 1) / 2);
    assert_eq!(from_text("erdos-renyi:tasks=1").len(), 1);
}

#[test]
fn communication_to_computation_ratio_is_as_asked() {
    for ccr in [0.1, 1.0, 10.0] {
        for name in ["layered:tasks=2000", "erdos-renyi:tasks=2000", "fft:points=256", "cholesky:tiles=20"] {
            let flat = from_text(&format!("{name},ccr={ccr},bandwidth=10MB,mean-seconds=3")).freeze();
            let seconds = flat.tasks().map(|t| flat.work(t)).sum::<f64>() / flat.len() as f64;
            let edges = flat.tasks().flat_map(|t| flat.parent_edges(t));
            let bytes = edges.map(|e| flat.edge_bytes(e)).sum::<f64>() / flat.edge_count() as f64;
            let found = bytes / 10e6 / seconds;
            assert!((found / ccr - 1.0).abs() < 0.05, "{name}: {found}, expected {ccr}");
            assert!((seconds / 3.0 - 1.0).abs() < 0.05, "{name}: {seconds}");
        }
    }
}

#[test]
fn spread_bounds_the_costs() {
    let costs = Costs { mean_seconds: 8.0, spread: 0.25, ccr: 0.5, bandwidth: 1e6 };
    let flat = Layered { costs, ..Layered::default() }.generate(&mut generate::seeded(9)).unwrap().freeze();
    assert!(flat.tasks().all(|t| (6.0..=10.0).contains(&flat.work(t))));
    let edges = flat.tasks().flat_map(|t| flat.parent_edges(t));
    assert!(edges.map(|e| flat.edge_bytes(e)).all(|bytes| (3e6..=5e6).contains(&bytes)));
}

#[test]
fn one_seed_one_graph() {
    for generator in Generator::all() {
        let graph = |seed| fingerprint(&generator.generate(&mut generate::seeded(seed)).unwrap());
        assert_eq!(graph(11), graph(11), "{generator}");
        assert_ne!(graph(11), graph(12), "{generator}");
    }
}

#[test]
fn costs_do_not_change_the_structure() {
    let pairs = |ccr: f64| -> Vec<(TaskId, TaskId)> {
        let job = from_text(&format!("layered:tasks=300,ccr={ccr},spread=0"));
        job.dependencies().map(|(parent, child, _)| (parent, child)).collect()
    };
    assert_eq!(pairs(0.1), pairs(10.0));
}

#[test]
fn any_random_generator_serves() {
    let mut rng = generate::seeded(1);
    let dynamic: &mut dyn rand::RngCore = &mut rng;
    assert_eq!(generate::from_text("chain:tasks=3", dynamic).unwrap().len(), 3);
}

#[test]
fn a_million_tasks() {
    let flat = from_text("layered:tasks=1e6").freeze();
    assert_eq!(flat.len(), 1_000_000);
    assert!(flat.edge_count() < 10_000_000, "{}", flat.edge_count());
}

#[test]
fn texts_read_and_write() {
    for generator in Generator::all() {
        let text = generator.to_string();
        assert_eq!(text.parse::<Generator>().unwrap(), generator, "{text}");
        assert_eq!(generator.name().parse::<Generator>().unwrap(), generator);
        assert!(!generator.about().is_empty() && !generator.parameters().is_empty());
    }
    let text = " Fork_Join:stages=2, width=1e3";
    assert_eq!(
        text.parse::<Generator>().unwrap(),
        Generator::ForkJoin(ForkJoin { stages: 2, width: 1000, ..ForkJoin::default() })
    );
    let text = "chain:mean-seconds=2m,bandwidth=1GiB";
    let costs = Costs { mean_seconds: 120.0, bandwidth: 1_073_741_824.0, ..Costs::default() };
    assert_eq!(text.parse::<Generator>().unwrap(), Generator::Chain(Chain { costs, ..Chain::default() }));
}

#[test]
fn wrong_texts_say_what_would_be_right() {
    for (text, parts) in [
        ("", &["not known", "layered", "epigenomics"][..]),
        ("fftt", &["generator 'fftt'", "did you mean 'fft'?"]),
        ("fft:point=4", &["fft:point:", "did you mean 'points'?", "mean_seconds"]),
        ("fft:points", &["fft: 'points' is no parameter", "name=value"]),
        ("fft:points=four", &["fft:points: 'four' is not a number"]),
        ("fft:points=4.5", &["fft:points: '4.5' is not a whole number"]),
        ("fft:points=-4", &["fft:points: '-4' is not a whole number"]),
        ("fft:points=1e300", &["fft:points: '1e300' is not a whole number"]),
        ("fft:points=12", &["fft:points: 12 is not a power of 2", "8"]),
        ("fft:points=1", &["fft:points: 1 is too few", "at least 2"]),
        ("fft:ccr=nan", &["fft:ccr: 'nan' is not finite"]),
        ("fft:ccr=-1", &["fft:ccr: -1 is out of range"]),
        ("fft:mean-seconds=soon", &["fft:mean_seconds", "soon"]),
        ("chain:tasks=0", &["chain:tasks: 0 is too few", "at least 1"]),
        ("chain:tasks=1e12", &["chain:tasks: this makes 1000000000000 tasks", "at most 16777216"]),
        ("fft:a\nb=1", &["fft:a\\nb"]),
    ] {
        let error = text.parse::<Generator>().map(|g| g.generate(&mut generate::seeded(1)));
        let error = match error {
            Err(error) | Ok(Err(error)) => error.to_string(),
            Ok(Ok(_)) => panic!("'{text}' was accepted"),
        };
        for part in parts {
            assert!(error.contains(part), "'{text}': {error}");
        }
        assert_eq!(error.lines().count(), 1);
    }
}

#[test]
fn bad_parameters_are_refused() {
    let huge = usize::MAX;
    let costs = |change: fn(&mut Costs)| {
        let mut costs = Costs::default();
        change(&mut costs);
        Generator::Independent(Independent { costs, ..Independent::default() })
    };
    let layered = |change: fn(&mut Layered)| {
        let mut spec = Layered::default();
        change(&mut spec);
        Generator::Layered(spec)
    };
    let bad = [
        costs(|c| c.mean_seconds = f64::NAN),
        costs(|c| c.mean_seconds = -1.0),
        costs(|c| c.spread = 1.5),
        costs(|c| c.ccr = f64::INFINITY),
        costs(|c| c.bandwidth = -1.0),
        costs(|c| (c.mean_seconds, c.bandwidth) = (1e12, 1e18)),
        layered(|l| l.tasks = 0),
        layered(|l| l.tasks = usize::MAX),
        layered(|l| l.shape = 0.0),
        layered(|l| l.shape = f64::NAN),
        layered(|l| l.density = 1.1),
        layered(|l| l.regularity = -0.1),
        layered(|l| l.jump = 0),
        layered(|l| l.max_parents = 0),
        layered(|l| (l.tasks, l.density, l.max_parents) = (1_000_000, 1.0, usize::MAX)),
        Generator::ErdosRenyi(ErdosRenyi { tasks: 1_000_000, degree: 1e6, ..ErdosRenyi::default() }),
        Generator::ErdosRenyi(ErdosRenyi { degree: f64::NAN, ..ErdosRenyi::default() }),
        Generator::ForkJoin(ForkJoin { stages: huge, width: huge, ..ForkJoin::default() }),
        Generator::ForkJoin(ForkJoin { width: 0, ..ForkJoin::default() }),
        Generator::Fft(Fft { points: 1 << 40, ..Fft::default() }),
        Generator::Fft(Fft { points: 0, ..Fft::default() }),
        Generator::GaussianElimination(GaussianElimination { size: huge, ..Default::default() }),
        Generator::GaussianElimination(GaussianElimination { size: 1, ..Default::default() }),
        Generator::Cholesky(Cholesky { tiles: huge, ..Cholesky::default() }),
        Generator::Cholesky(Cholesky { tiles: 0, ..Cholesky::default() }),
        Generator::Montage(Montage { images: huge, ..Montage::default() }),
        Generator::Montage(Montage { images: 1, ..Montage::default() }),
        Generator::Montage(Montage { bands: 0, ..Montage::default() }),
        Generator::Montage(Montage { overlaps_per_image: f64::NAN, ..Montage::default() }),
        Generator::Epigenomics(Epigenomics { sequences: huge, chunks: huge }),
        Generator::Epigenomics(Epigenomics { sequences: 1, chunks: 0 }),
        Generator::Chain(Chain { tasks: huge, ..Chain::default() }),
    ];
    for generator in bad {
        let result = generator.generate(&mut generate::seeded(1));
        assert!(matches!(result, Err(Error::BadParameter { .. })), "{generator:?} gave {result:?}");
    }
}

/// Every task's level is one more than its highest parent's.
fn check_levels(flat: &FlatGraph) {
    for task in flat.tasks() {
        let highest = flat.parents(task).iter().map(|p| flat.level(*p) + 1).max();
        assert_eq!(flat.level(task), highest.unwrap_or(0));
    }
}

proptest! {
    #[test]
    fn random_layered_graphs_are_as_specified(
        tasks in 1_usize..400, shape in 0.01..20.0, regularity in 0.0..=1.0, density in 0.0..=1.0,
        jump in 1_usize..6, max_parents in 1_usize..12, seed: u64,
    ) {
        let spec =
            Layered { tasks, shape, regularity, density, jump, max_parents, costs: Costs::default() };
        let flat = spec.generate(&mut generate::seeded(seed)).unwrap().freeze();
        prop_assert_eq!(flat.len(), tasks);
        check_levels(&flat);
        for task in flat.tasks() {
            let parents = flat.parents(task);
            prop_assert!(parents.len() <= max_parents);
            prop_assert_eq!(parents.is_empty(), flat.level(task) == 0);
            let (level, reach) = (flat.level(task), jump as u32);
            prop_assert!(parents.iter().all(|p| flat.level(*p) + reach >= level));
            let mut distinct = parents.to_vec();
            distinct.sort_unstable();
            distinct.dedup();
            prop_assert_eq!(distinct.len(), parents.len());
        }
    }

    #[test]
    fn random_montages_are_connected_through_files(
        bands in 1_usize..4, images in 2_usize..20, overlaps_per_image in 0.5..8.0, seed: u64,
    ) {
        let spec = Montage { bands, images, overlaps_per_image };
        let job = spec.generate(&mut generate::seeded(seed)).unwrap();
        prop_assert!(job.dependencies().all(|(_, _, d)| d.direct == 0.0 && d.bytes > 0.0));
        prop_assert_eq!(job.freeze().depth(), 8);
    }
}
