"""What Su & Zhang printed of their own simulation: the figures to be met."""

# under random selection, 10,000 permutations: rank, mean and sd of r(t), mean of their standard error, coverage at
# 80% and at 95%
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
