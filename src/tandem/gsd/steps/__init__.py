"""The review steps of a workflow: what `tandem gate plan|context|task|wave|verification` put up, wait for and say."""
