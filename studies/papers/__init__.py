"""The tables and figures of the five papers on real data, with a verdict on every published
finding.
"""

PAPERS = {  # key of a paper → what it proposes
    "Tsivtsivadze2010": "Sparse Co-RankRLS",
    "Brefeld2006": "coRLSR",
    "Tsivtsivadze2009": "KPCRank and its Gaussian process",
    "Tsivtsivadze2013": "ranking pursuit",
    "Pahikkala2007": "transductive RankRLS",
}
