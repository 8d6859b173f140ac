"""The report: findings for people (``html``, ``words``, ``figures``) and for machines (``json``).

It reads results and recordings, never a target, and decides nothing: what a test did not find is not said
here.
"""
