"""What an independent simulation by other code found, and what Su & Zhang printed: the figures to be met."""

# where it does not say how many repetitions it had, these are supposed
TRIALS, LAW_TRIALS = 5000, 100_000

# method: least, median and greatest coverage at 80% and at 95%, m fixed, design "stratified"
INTERVALS = {
    "influence": ((0.753, 0.796, 0.846), (0.922, 0.949, 0.974)),
    "wald": ((0.777, 0.795, 0.892), (0.927, 0.947, 0.976)),
    "jackknife": ((0.689, 0.795, 0.814), (0.905, 0.949, 0.967)),
    "boyd-logit": ((0.797, 0.884, 1.0), (0.947, 0.980, 1.0)),
    "boyd-binomial": ((0.789, 0.898, 1.0), (0.944, 0.986, 1.0)),
    "survival": ((0.720, 0.877, 1.0), (0.908, 0.983, 1.0)),
    "sigma-ap": ((0.108, 0.631, 1.0), (0.160, 0.815, 1.0)),
}
WIDTHS = {"influence": 0.083, "wald": 0.081, "jackknife": 0.082, "boyd-logit": 0.112, "boyd-binomial": 0.099}
WIDTHS |= {"survival": 0.137, "sigma-ap": 0.039}
INFLUENCE_IID = ((0.783, 0.827, 0.945), (0.943, 0.964, 0.997))
WIDTH_IID = 0.089
# of 15 configurations that it does not name
BOOTSTRAPS = {
    "bootstrap-percentile": ((0.640, 0.754, 0.811), (0.864, 0.928, 0.952)),
    "bootstrap-bca": ((0.718, 0.774, 0.824), (0.875, 0.940, 0.956)),
    "bootstrap-logit": ((0.754, 0.800, 0.890), (0.916, 0.950, 0.984)),
}
# least and greatest at 95% where m is random, over configurations that it does not name
RANDOM_M = {"stratified": (0.894, 0.929), "iid": (0.939, 0.948)}
RECALL = {"stratified": ((0.79, 0.83), (0.91, 0.95)), "r (1 - r) / m": ((0.86, 0.998), (0.98, 1.0))}
# (n, pi, d', k), m random: coverage at 95% of precision and recall at rank k, by each design
AT_RANK = {
    (1000, 0.1, 1.5, 100): {("P@k", "iid"): 0.955, ("P@k", "stratified"): 0.866},
    (1000, 0.1, 1.5, 300): {
        ("P@k", "iid"): 0.951, ("P@k", "stratified"): 0.643, ("R@k", "iid"): 0.952, ("R@k", "stratified"): 0.948,
    },
    (300, 0.1, 3.0, 30): {
        ("P@k", "iid"): 0.916, ("P@k", "stratified"): 0.578, ("R@k", "iid"): 0.947, ("R@k", "stratified"): 0.826,
    },
    (200, 0.5, 1.5, 50): {
        ("P@k", "iid"): 0.945, ("P@k", "stratified"): 0.868, ("R@k", "iid"): 0.944, ("R@k", "stratified"): 0.754,
    },
    (1000, 0.1, 1.5, 10): {("P@k", "iid"): 0.980, ("P@k", "stratified"): 0.861},
}  # fmt: skip
# (n, m): rejections of random rankings in percent at nominal 5, 1 and .1
CHANCE = {
    "shifted lognormal": {(3000, 245): ("5.2", "1.3", ".18"), (100, 10): ("5.6", ".8", ".02")},
    "normal about E(AP)": {(3000, 245): ("6.1", "2.1", ".56"), (100, 10): ("7.3", "3.5", "1.4")},
    "normal about m / n": {(3000, 245): ("11.1", "4.0", "1.2"), (100, 10): ("15.6", "7.6", "3.3")},
}
# method: least and greatest share of rejections at 5%, for (n, m) = (1000, 50) and (3000, 245)
SYSTEMS = {
    "jackknife": ((0.029, 0.060), (0.046, 0.059)),
    "influence": ((0.032, 0.066), (0.048, 0.055)),
    "bootstrap": ((0.053, 0.077), (0.054, 0.066)),
    "permutation": ((0.042, 0.055), (0.040, 0.054)),
}
SKEWED = {"wilcoxon": 0.8, "sign": 1.0}

# Su & Zhang's simulation under random selection, 10,000 permutations: rank, mean and sd of r(t), mean of their
# standard error, coverage at 80% and at 95%
SLIDES_TRIALS = 10_000
SLIDES_RECALL = {
    50: (0.01680, 0.00791, 0.00793, 0.7407, 0.9241),
    100: (0.03341, 0.01108, 0.01130, 0.7763, 0.9160),
    245: (0.08168, 0.01682, 0.01739, 0.8014, 0.9406),
    500: (0.16675, 0.02289, 0.02373, 0.8206, 0.9563),
    1500: (0.49948, 0.03052, 0.03188, 0.8208, 0.9538),
    2500: (0.83296, 0.02290, 0.02375, 0.8197, 0.9541),
}
# centre and spread of AP, mean estimate and mean standard error, coverage; the second row in brackets on the slide
SLIDES_AP = ((0.08399, 0.00561, 0.08395, 0.00514, 0.7642, 0.9320), (0.08164, 0.00497, None, None, 0.7586, 0.9359))
